// Answers for the C++ half of Transformer Engine's selection (2.10 to 2.19): a release's own
// nvte_get_fused_attn_backend, for any pretended arch and cuDNN version, on a machine without a
// GPU.
//
//   te_fused_half LIBTRANSFORMER_ENGINE_SO PROTOTYPE
//
// PROTOTYPE is 18 (2.10) or 19 (since 2.12: `deterministic` comes last): the symbol never changed,
// its arguments did. A request is one line of 22 numbers on stdin: those 19 arguments, arch (90),
// cuDNN version (90100), and NVTE_FUSED_ATTN_BACKEND (-1: not set). The answer is one line on
// stdout: the sub-backend, or `!` and the text of the exception.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

static int pretended_arch;
static size_t pretended_cudnn;
static int questions; // bit 0: arch was asked, bit 1: cuDNN's version

// Exported by the executable, these stand before the library's own in the global scope.
namespace transformer_engine::cuda
{
int sm_arch(int device_id);
int current_device();
int sm_arch(int)
{
    questions |= 1;
    return pretended_arch;
}
int current_device()
{
    return 0;
}
} // namespace transformer_engine::cuda
extern "C" size_t cudnnGetVersion(void);
extern "C" size_t cudnnGetVersion(void)
{
    questions |= 2;
    return pretended_cudnn;
}

namespace
{

// Source: transformer_engine/common/include/transformer_engine/fused_attn.h of 2.10 and of 2.12.
using backend18 = int (*)(bool, int, int, int, int, int, int, float, size_t, size_t, size_t, size_t,
                          size_t, size_t, int64_t, int64_t, bool, bool);
using backend19 = int (*)(bool, int, int, int, int, int, int, float, size_t, size_t, size_t, size_t,
                          size_t, size_t, int64_t, int64_t, bool, bool, bool);

struct request {
    int training, q_dtype, kv_dtype, layout, bias, mask, softmax;
    float dropout;
    size_t heads_q, heads_kv, len_q, len_kv, dim_qk, dim_v;
    long long left, right;
    int max_logit, graph, deterministic, arch;
    size_t cudnn;
    int forced;
};

bool read_request(const char *line, request &r)
{
    return std::sscanf(
               line, "%d %d %d %d %d %d %d %f %zu %zu %zu %zu %zu %zu %lld %lld %d %d %d %d %zu %d",
               &r.training, &r.q_dtype, &r.kv_dtype, &r.layout, &r.bias, &r.mask, &r.softmax,
               &r.dropout, &r.heads_q, &r.heads_kv, &r.len_q, &r.len_kv, &r.dim_qk, &r.dim_v,
               &r.left, &r.right, &r.max_logit, &r.graph, &r.deterministic, &r.arch, &r.cudnn,
               &r.forced) == 22;
}

int ask(void *symbol, bool with_deterministic, const request &r)
{
    char forced[16];
    std::snprintf(forced, sizeof forced, "%d", r.forced);
    if (r.forced < 0) {
        unsetenv("NVTE_FUSED_ATTN_BACKEND");
    } else {
        setenv("NVTE_FUSED_ATTN_BACKEND", forced, 1);
    }
    pretended_arch = r.arch;
    pretended_cudnn = r.cudnn;
    questions = 0;
    if (with_deterministic) {
        return reinterpret_cast<backend19>(symbol)(
            r.training, r.q_dtype, r.kv_dtype, r.layout, r.bias, r.mask, r.softmax, r.dropout,
            r.heads_q, r.heads_kv, r.len_q, r.len_kv, r.dim_qk, r.dim_v, r.left, r.right,
            r.max_logit, r.graph, r.deterministic);
    }
    return reinterpret_cast<backend18>(symbol)(r.training, r.q_dtype, r.kv_dtype, r.layout, r.bias,
                                               r.mask, r.softmax, r.dropout, r.heads_q, r.heads_kv,
                                               r.len_q, r.len_kv, r.dim_qk, r.dim_v, r.left,
                                               r.right, r.max_logit, r.graph);
}

void answer(FILE *out, void *symbol, bool with_deterministic, const char *line)
{
    request r = {};
    if (!read_request(line, r)) {
        std::fputs("! the request does not hold 22 numbers\n", out);
        return;
    }
    try {
        int backend = ask(symbol, with_deterministic, r);
        if (questions == 3) {
            std::fprintf(out, "%d\n", backend);
        } else {
            std::fputs("! the library did not ask the pretended arch and cuDNN version\n", out);
        }
    } catch (const std::exception &e) {
        const char *text = e.what();
        std::fprintf(out, "! %.*s\n", static_cast<int>(std::strcspn(text, "\n")), text);
    } catch (...) {
        std::fputs("! an exception that is not a std::exception\n", out);
    }
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 3 || (std::strcmp(argv[2], "18") != 0 && std::strcmp(argv[2], "19") != 0)) {
        std::fputs("te_fused_half: takes a libtransformer_engine.so and 18 or 19\n", stderr);
        return 3;
    }
    // The library prints warnings on stdout: answers go to a duplicate of it.
    FILE *out = fdopen(dup(STDOUT_FILENO), "w");
    if (out == nullptr || std::freopen("/dev/null", "w", stdout) == nullptr) {
        std::perror("te_fused_half");
        return 3;
    }
    void *library = dlopen(argv[1], RTLD_LAZY | RTLD_GLOBAL);
    void *symbol = library != nullptr ? dlsym(library, "nvte_get_fused_attn_backend") : nullptr;
    if (symbol == nullptr) {
        std::fprintf(stderr, "te_fused_half: %s\n", dlerror());
        return 3;
    }
    char line[1024];
    while (std::fgets(line, sizeof line, stdin) != nullptr) {
        answer(out, symbol, std::strcmp(argv[2], "19") == 0, line);
        std::fflush(out);
    }
    return 0;
}
