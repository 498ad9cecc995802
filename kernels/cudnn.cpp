// cuDNN's SDPA graphs, from spec to built plans. The only file that sees the cuDNN frontend.
#include "kernels/cudnn.h"

#include <cudnn_frontend.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace cudnn_frontend
{
void *cudnn_dlhandle = nullptr; // the frontend looks up every cuDNN symbol here
}

namespace
{
namespace fe = cudnn_frontend;
using fe::graph::Graph;
using fe::graph::Tensor_attributes;
using tensor = std::shared_ptr<Tensor_attributes>;
using shape = std::vector<int64_t>;

void put(char *out, size_t size, const std::string &text)
{
    std::string line = text;
    for (char &c : line) {
        if (static_cast<unsigned char>(c) < ' ') {
            c = ' ';
        }
    }
    (void)std::snprintf(out, size, "%s", line.c_str());
}

const char *code_name(fe::error_code_t code)
{
    using E = fe::error_code_t;
    switch (code) {
    case E::OK:
        return "OK";
    case E::ATTRIBUTE_NOT_SET:
        return "ATTRIBUTE_NOT_SET";
    case E::SHAPE_DEDUCTION_FAILED:
        return "SHAPE_DEDUCTION_FAILED";
    case E::INVALID_TENSOR_NAME:
        return "INVALID_TENSOR_NAME";
    case E::INVALID_VARIANT_PACK:
        return "INVALID_VARIANT_PACK";
    case E::GRAPH_NOT_SUPPORTED:
        return "GRAPH_NOT_SUPPORTED";
    case E::GRAPH_EXECUTION_PLAN_CREATION_FAILED:
        return "GRAPH_EXECUTION_PLAN_CREATION_FAILED";
    case E::GRAPH_EXECUTION_FAILED:
        return "GRAPH_EXECUTION_FAILED";
    case E::HEURISTIC_QUERY_FAILED:
        return "HEURISTIC_QUERY_FAILED";
    case E::UNSUPPORTED_GRAPH_FORMAT:
        return "UNSUPPORTED_GRAPH_FORMAT";
    case E::CUDA_API_FAILED:
        return "CUDA_API_FAILED";
    case E::CUDNN_BACKEND_API_FAILED:
        return "CUDNN_BACKEND_API_FAILED";
    case E::INVALID_CUDA_DEVICE:
        return "INVALID_CUDA_DEVICE";
    case E::HANDLE_ERROR:
        return "HANDLE_ERROR";
    case E::INVALID_VALUE:
        return "INVALID_VALUE";
    default:
        return "OTHER";
    }
}

fe::DataType_t data_type(at_cudnn_type type)
{
    switch (type) {
    case AT_CUDNN_F32:
        return fe::DataType_t::FLOAT;
    case AT_CUDNN_F16:
        return fe::DataType_t::HALF;
    case AT_CUDNN_BF16:
        return fe::DataType_t::BFLOAT16;
    case AT_CUDNN_E4M3:
        return fe::DataType_t::FP8_E4M3;
    case AT_CUDNN_E5M2:
        return fe::DataType_t::FP8_E5M2;
    }
    return fe::DataType_t::NOT_SET;
}

bool is_fp8(at_cudnn_type type)
{
    return type == AT_CUDNN_E4M3 || type == AT_CUDNN_E5M2;
}

/// Builds one graph: tensors first, then the node; outputs get the dims and strides of the spec.
class builder
{
  public:
    explicit builder(const at_cudnn_spec &s) : spec(s)
    {
        graph.set_io_data_type(data_type(s.type))
            .set_intermediate_data_type(fe::DataType_t::FLOAT)
            .set_compute_data_type(fe::DataType_t::FLOAT);
        graph.set_sm_version(s.sm);
    }

    fe::error_object set_device(const char *json)
    {
        auto properties = std::make_shared<fe::DeviceProperties>();
        auto status = properties->deserialize(std::vector<uint8_t>(json, json + std::strlen(json)));
        if (status.is_good()) {
            graph.set_device_properties(properties);
        }
        return status;
    }

    void build()
    {
        q = input("q", spec.q);
        k = input("k", spec.k);
        v = input("v", spec.v);
        if (spec.ragged) {
            q->set_ragged_offset(rag_q = offsets("q_offset"));
            rag_o = offsets("o_offset");
            if (spec.page == 0) {
                k->set_ragged_offset(rag_k = offsets("k_offset"));
                v->set_ragged_offset(rag_v = offsets("v_offset"));
            }
        }
        if (spec.backward) {
            is_fp8(spec.type) ? backward_fp8() : backward();
        } else {
            is_fp8(spec.type) ? forward_fp8() : forward();
        }
    }

    Graph graph;

  private:
    const at_cudnn_spec &spec;
    int64_t next_uid = 1;
    tensor q, k, v, rag_q, rag_k, rag_v, rag_o;

    tensor make(const char *name, const shape &dim, const shape &stride, fe::DataType_t type)
    {
        return graph.tensor(Tensor_attributes()
                                .set_name(name)
                                .set_uid(next_uid++)
                                .set_dim(dim)
                                .set_stride(stride)
                                .set_data_type(type));
    }

    tensor input(const char *name, const at_cudnn_tensor &t)
    {
        return make(name, shape(t.dim, t.dim + 4), shape(t.stride, t.stride + 4),
                    data_type(spec.type));
    }

    tensor dense(const char *name, const shape &dim, fe::DataType_t type)
    {
        shape stride(4, 1);
        for (int i = 2; i >= 0; i--) {
            stride[(size_t)i] = stride[(size_t)i + 1] * dim[(size_t)i + 1];
        }
        return make(name, dim, stride, type);
    }

    tensor offsets(const char *name)
    {
        return dense(name, {spec.q.dim[0] + 1, 1, 1, 1}, fe::DataType_t::INT64);
    }

    tensor scalar(const char *name)
    {
        return dense(name, {1, 1, 1, 1}, fe::DataType_t::FLOAT);
    }

    tensor lengths(const char *name)
    {
        return dense(name, {spec.q.dim[0], 1, 1, 1}, fe::DataType_t::INT32);
    }

    shape bias_dim() const
    {
        return {spec.bias_batch, spec.bias_heads, spec.q.dim[2], spec.len_kv};
    }

    /// LSE strides: dense [b h s], or [b s h] when packed.
    shape stats_stride() const
    {
        const int64_t h = spec.q.dim[1], s = spec.q.dim[2];
        return spec.ragged ? shape{s * h, 1, h, 1} : shape{h * s, s, 1, 1};
    }

    void output(const tensor &t, const at_cudnn_tensor &like, at_cudnn_type type,
                const tensor &ragged)
    {
        t->set_output(true)
            .set_dim(shape(like.dim, like.dim + 4))
            .set_stride(shape(like.stride, like.stride + 4))
            .set_data_type(data_type(type));
        if (ragged) {
            t->set_ragged_offset(ragged);
        }
    }

    static void output_scalar(const tensor &t)
    {
        t->set_output(true)
            .set_dim({1, 1, 1, 1})
            .set_stride({1, 1, 1, 1})
            .set_data_type(fe::DataType_t::FLOAT);
    }

    /// What all four attribute classes share.
    template <class A> void set_common(A &a)
    {
        a.set_name("sdpa").set_attn_scale(spec.scale);
        if (spec.has_left) {
            a.set_diagonal_band_left_bound(static_cast<int>(spec.left));
        }
        if (spec.has_right) {
            a.set_diagonal_band_right_bound(static_cast<int>(spec.right));
        }
        if (spec.bottom_right) {
            a.set_diagonal_alignment(fe::DiagonalAlignment_t::BOTTOM_RIGHT);
        }
        if (spec.padding || spec.ragged || spec.page > 0) {
            a.set_padding_mask(true)
                .set_seq_len_q(lengths("len_q"))
                .set_seq_len_kv(lengths("len_kv"));
        }
        if (spec.bias) {
            a.set_bias(dense("bias", bias_dim(), data_type(spec.type)));
        }
        if (spec.has_dropout) {
            a.set_dropout(spec.dropout, dense("seed", {1, 1, 1, 1}, fe::DataType_t::INT64),
                          dense("offset", {1, 1, 1, 1}, fe::DataType_t::INT64));
        }
        if (spec.sink) {
            a.set_sink_token(dense("sink", {1, spec.q.dim[1], 1, 1}, fe::DataType_t::FLOAT));
        }
    }

    fe::graph::SDPA_attributes forward_attributes()
    {
        fe::graph::SDPA_attributes a;
        set_common(a);
        a.set_generate_stats(spec.stats);
        if (spec.alibi) {
            a.set_alibi_mask(true);
        }
        if (spec.node != AT_CUDNN_AUTO) {
            a.set_implementation(spec.node == AT_CUDNN_UNIFIED
                                     ? fe::AttentionImplementation_t::UNIFIED
                                     : fe::AttentionImplementation_t::COMPOSITE);
        }
        if (spec.page > 0) {
            const int64_t pages = (spec.len_kv + spec.page - 1) / spec.page;
            const shape table = {spec.q.dim[0], 1, pages, 1};
            a.set_paged_attention_k_table(dense("table_k", table, fe::DataType_t::INT32))
                .set_paged_attention_v_table(dense("table_v", table, fe::DataType_t::INT32))
                .set_paged_attention_max_seq_len_kv(static_cast<int>(spec.len_kv));
        }
        return a;
    }

    void finish_forward(const tensor &o, const tensor &stats)
    {
        output(o, spec.o, spec.out_type, rag_o);
        if (spec.stats && stats) {
            const shape dim = {spec.q.dim[0], spec.q.dim[1], spec.q.dim[2], 1};
            stats->set_output(true)
                .set_dim(dim)
                .set_stride(stats_stride())
                .set_data_type(fe::DataType_t::FLOAT);
            if (spec.ragged) {
                stats->set_ragged_offset(offsets("stats_offset"));
            }
        }
    }

    void forward()
    {
        auto [o, stats] = graph.sdpa(q, k, v, forward_attributes());
        finish_forward(o, stats);
    }

    void forward_fp8()
    {
        auto [o, stats, amax_s, amax_o] = graph.sdpa_fp8(
            q, k, v, scalar("descale_q"), scalar("descale_k"), scalar("descale_v"),
            scalar("descale_s"), scalar("scale_s"), scalar("scale_o"), forward_attributes());
        output_scalar(amax_s);
        output_scalar(amax_o);
        finish_forward(o, stats);
    }

    struct saved {
        tensor o, dout, stats;
    };

    saved backward_inputs()
    {
        saved in;
        in.o = input("o", spec.o);
        in.dout = input("dout", spec.dout);
        in.stats = make("stats", {spec.q.dim[0], spec.q.dim[1], spec.q.dim[2], 1}, stats_stride(),
                        fe::DataType_t::FLOAT);
        if (spec.ragged) {
            in.o->set_ragged_offset(rag_o);
            in.dout->set_ragged_offset(rag_o);
            in.stats->set_ragged_offset(offsets("stats_offset"));
        }
        return in;
    }

    template <class A> void set_backward(A &a)
    {
        set_common(a);
        a.set_deterministic_algorithm(spec.deterministic);
        if (spec.dsink) {
            tensor dsink = dense("dsink", {1, spec.q.dim[1], 1, 1}, fe::DataType_t::FLOAT);
            dsink->set_output(true);
            a.set_dsink_token(dsink);
        }
    }

    void finish_backward(const tensor &dq, const tensor &dk, const tensor &dv)
    {
        output(dq, spec.q, spec.out_type, rag_q);
        output(dk, spec.k, spec.out_type, rag_k);
        output(dv, spec.v, spec.out_type, rag_v);
    }

    void backward()
    {
        saved in = backward_inputs();
        fe::graph::SDPA_backward_attributes a;
        set_backward(a);
        if (spec.alibi) {
            a.set_alibi_mask(true);
        }
        if (spec.dbias) {
            tensor dbias = dense("dbias", bias_dim(), data_type(spec.type));
            dbias->set_output(true);
            a.set_dbias(dbias);
        }
        if (spec.ragged) {
            a.set_max_total_seq_len_q(spec.q.dim[0] * spec.q.dim[2])
                .set_max_total_seq_len_kv(spec.q.dim[0] * spec.len_kv);
        }
        auto [dq, dk, dv] = graph.sdpa_backward(q, k, v, in.o, in.dout, in.stats, a);
        finish_backward(dq, dk, dv);
    }

    void backward_fp8()
    {
        static const char *const scales[] = {"descale_q",  "descale_k", "descale_v",  "descale_o",
                                             "descale_do", "descale_s", "descale_dp", "scale_s",
                                             "scale_dq",   "scale_dk",  "scale_dv",   "scale_dp"};
        saved in = backward_inputs();
        fe::graph::SDPA_fp8_backward_attributes a;
        set_backward(a);
        tensor s[12];
        for (size_t i = 0; i < 12; i++) {
            s[i] = scalar(scales[i]);
        }
        auto out = graph.sdpa_fp8_backward(q, k, v, in.o, in.dout, in.stats, s[0], s[1], s[2], s[3],
                                           s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11], a);
        for (size_t i = 3; i < out.size(); i++) {
            output_scalar(out[i]);
        }
        finish_backward(out[0], out[1], out[2]);
    }
};

/// Records what a stage answered; true to go on.
bool record(at_cudnn_answer *out, at_cudnn_stage stage, const fe::error_object &status)
{
    auto copy = status;
    out->stage = stage;
    out->passed = copy.is_good();
    put(out->code, sizeof out->code, code_name(copy.get_code()));
    put(out->message, sizeof out->message, out->passed ? "" : copy.get_message());
    return out->passed;
}

std::vector<fe::HeurMode_t> modes(const char *letters)
{
    std::vector<fe::HeurMode_t> list;
    for (const char *c = letters; *c != '\0'; c++) {
        list.push_back(*c == 'A'   ? fe::HeurMode_t::A
                       : *c == 'B' ? fe::HeurMode_t::B
                                   : fe::HeurMode_t::FALLBACK);
    }
    return list;
}

/// The distinct plans that the heuristics listed, and where each stands in the frontend's list.
std::vector<int64_t> list_plans(at_cudnn_answer *out, Graph &graph)
{
    std::vector<int64_t> index;
    const int64_t n = graph.get_execution_plan_count();
    for (int64_t i = 0; i < n && out->plan_count < AT_CUDNN_PLANS_MAX; i++) {
        std::string name;
        if (graph.get_plan_name_at_index(i, name).is_bad()) {
            continue;
        }
        bool known = false;
        for (int p = 0; p < out->plan_count; p++) {
            known = known || name == out->plan[p].name;
        }
        if (!known) {
            put(out->plan[out->plan_count++].name, AT_CUDNN_NAME, name);
            index.push_back(i);
        }
    }
    return index;
}

void build_plan(at_cudnn_plan *plan, Graph &graph, int64_t index)
{
    const auto begin = std::chrono::steady_clock::now();
    auto status = graph.build_plan_at_index(index);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    plan->ms = took.count();
    plan->built = status.is_good();
    put(plan->code, sizeof plan->code, code_name(status.get_code()));
    if (plan->built) {
        (void)graph.get_workspace_size_plan_at_index(index, plan->workspace);
    } else {
        put(plan->message, sizeof plan->message, status.get_message());
    }
}

void build_plans(at_cudnn_answer *out, Graph &graph, const std::vector<int64_t> &index,
                 at_cudnn_before_plan before, void *context)
{
    for (int p = 0; p < out->plan_count; p++) {
        at_cudnn_plan *plan = &out->plan[p];
        plan->workspace = -1;
        if (before != nullptr && !before(context, plan->name)) {
            put(plan->code, sizeof plan->code, "SKIPPED");
            continue;
        }
        build_plan(plan, graph, index[static_cast<size_t>(p)]);
        out->built_count += plan->built;
    }
}

void run_stages(at_cudnn_answer *out, const at_cudnn_spec *spec, at_cudnn_stage last,
                at_cudnn_before_plan before, void *context)
{
    builder b(*spec);
    if (spec->device_json != nullptr && last >= AT_CUDNN_S2_GRAPH &&
        !record(out, AT_CUDNN_S0_CHOICE, b.set_device(spec->device_json))) {
        return;
    }
    out->stage = AT_CUDNN_S0_CHOICE;
    b.build();
    out->passed = true;
    if (last < AT_CUDNN_S1_VALIDATE || !record(out, AT_CUDNN_S1_VALIDATE, b.graph.validate())) {
        return;
    }
    out->stage = last >= AT_CUDNN_S2_GRAPH ? AT_CUDNN_S2_GRAPH : out->stage;
    if (last < AT_CUDNN_S2_GRAPH ||
        !record(out, AT_CUDNN_S2_GRAPH, b.graph.build_operation_graph())) {
        return;
    }
    out->stage = last >= AT_CUDNN_S3_HEURISTICS ? AT_CUDNN_S3_HEURISTICS : out->stage;
    if (last < AT_CUDNN_S3_HEURISTICS ||
        !record(out, AT_CUDNN_S3_HEURISTICS,
                b.graph.create_execution_plans(modes(spec->heuristics)))) {
        return;
    }
    int64_t engines = 0;
    if (b.graph.get_engine_count(engines).is_good()) {
        out->engines = static_cast<int>(engines);
    }
    const std::vector<int64_t> index = list_plans(out, b.graph);
    if (last < AT_CUDNN_S4_SUPPORT || !record(out, AT_CUDNN_S4_SUPPORT, b.graph.check_support())) {
        return;
    }
    if (last >= AT_CUDNN_S5_PLANS) {
        out->stage = AT_CUDNN_S5_PLANS;
        build_plans(out, b.graph, index, before, context);
        out->passed = out->built_count > 0;
    }
}

void ask(at_cudnn_answer *out, const at_cudnn_spec *spec, at_cudnn_stage last,
         at_cudnn_before_plan before, void *context) noexcept
{
    std::memset(out, 0, sizeof *out);
    try {
        run_stages(out, spec, last, before, context);
    } catch (const std::exception &e) {
        out->passed = false;
        put(out->code, sizeof out->code, "EXCEPTION");
        put(out->message, sizeof out->message, e.what());
    } catch (...) {
        out->passed = false;
        put(out->code, sizeof out->code, "EXCEPTION");
        put(out->message, sizeof out->message, "an exception that is no std::exception");
    }
}

bool open_library(const char *path, char *message) noexcept
{
    if (fe::cudnn_dlhandle != nullptr) {
        return true;
    }
    fe::cudnn_dlhandle = dlopen(path != nullptr ? path : "libcudnn.so.9", RTLD_NOW | RTLD_GLOBAL);
    if (fe::cudnn_dlhandle == nullptr) {
        put(message, AT_CUDNN_MESSAGE, dlerror());
    }
    return fe::cudnn_dlhandle != nullptr;
}

long version() noexcept
{
    using query = size_t (*)(void);
    void *symbol =
        fe::cudnn_dlhandle != nullptr ? dlsym(fe::cudnn_dlhandle, "cudnnGetVersion") : nullptr;
    return symbol != nullptr ? static_cast<long>(reinterpret_cast<query>(symbol)()) : 0;
}

char *device_properties(int device, char *message) noexcept
{
    try {
        fe::DeviceProperties properties;
        auto status = properties.set_device_id(device).build();
        std::vector<uint8_t> bytes;
        if (status.is_good()) {
            status = properties.serialize(bytes);
        }
        if (status.is_good()) {
            char *text = static_cast<char *>(std::calloc(bytes.size() + 1, 1));
            if (text != nullptr) {
                std::memcpy(text, bytes.data(), bytes.size());
            }
            return text;
        }
        put(message, AT_CUDNN_MESSAGE, status.get_message());
    } catch (const std::exception &e) {
        put(message, AT_CUDNN_MESSAGE, e.what());
    }
    return nullptr;
}

const std::string frontend_version = std::to_string(CUDNN_FRONTEND_MAJOR_VERSION) + "." +
                                     std::to_string(CUDNN_FRONTEND_MINOR_VERSION) + "." +
                                     std::to_string(CUDNN_FRONTEND_PATCH_VERSION);
const std::string header_version = std::to_string(CUDNN_MAJOR) + "." + std::to_string(CUDNN_MINOR) +
                                   "." + std::to_string(CUDNN_PATCHLEVEL);
} // namespace

extern "C" __attribute__((visibility("default"))) const at_cudnn_api *attest_cudnn(int abi)
{
    static const at_cudnn_api api = {
        .frontend_version = frontend_version.c_str(),
        .header_version = header_version.c_str(),
        .open = open_library,
        .version = version,
        .ask = ask,
        .device_properties = device_properties,
    };
    return abi == AT_CUDNN_ABI ? &api : nullptr;
}
