#include "kernels/cudnn_spec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/problem/strides.h"

static at_status refuse(at_reason *why, const char *code, const char *text)
{
    (void)snprintf(why->code, sizeof why->code, "%s", code);
    (void)snprintf(why->text, sizeof why->text, "%s", text);
    return AT_UNSUPPORTED;
}

/* What the API cannot say, whatever the version. */
static at_status check(const at_case *c, at_step step, at_reason *why)
{
    if (c->amask >= AT_AMASK_BOOL_11 && c->amask <= AT_AMASK_BOOL_BH) {
        return refuse(why, "cudnn_bool_mask", "amask=bool.*: a bias tensor cannot be boolean");
    }
    if (c->amask != AT_AMASK_NONE && c->bias >= AT_BIAS_REL_11) {
        return refuse(why, "cudnn_two_biases",
                      "amask and bias=rel.* both need the one bias tensor");
    }
    if (c->softcap != 0) {
        return refuse(why, "cudnn_softcap", "softcap: only as a caller's score modifier graph");
    }
    if (c->sink == AT_SINK_OFF1) {
        return refuse(why, "cudnn_off1_sink",
                      "sink=off1: the sink token is a tensor (sink=learned)");
    }
    if (c->exec != AT_EXEC_ONCE) {
        return refuse(why, "cudnn_exec", "exec: offline graphs are only planned, exec=once");
    }
    if (c->batch == 0 || c->len_q == 0 || c->len_kv == 0) {
        return refuse(why, "cudnn_empty", "b, sq or skv is 0: callers return before they ask");
    }
    const bool fp8 = c->dtype == AT_F8E4M3 || c->dtype == AT_F8E5M2;
    if (step == AT_STEP_BACKWARD && fp8 && c->bias == AT_BIAS_ALIBI) {
        return refuse(why, "cudnn_fp8_alibi", "bias=alibi: the FP8 backward has no ALiBi");
    }
    if (step == AT_STEP_BACKWARD && fp8 && (c->grads & AT_GRAD_B) != 0) {
        return refuse(why, "cudnn_fp8_dbias", "grads=b: the FP8 backward gives no bias gradient");
    }
    if (step == AT_STEP_BACKWARD && c->page > 0) {
        return refuse(why, "cudnn_paged_backward", "page: the backward has no paged K and V");
    }
    return AT_OK;
}

static at_cudnn_type type_of(int64_t dtype)
{
    static const at_cudnn_type types[] = {AT_CUDNN_F32, AT_CUDNN_F16, AT_CUDNN_BF16, AT_CUDNN_E4M3,
                                          AT_CUDNN_E5M2};
    return types[dtype];
}

/* thd: the padded [b h s d] shape with the strides of bshd; the offsets tell where rows are. */
static at_cudnn_tensor place(const at_case *c, at_tensor_id id)
{
    at_strides from;
    at_cudnn_tensor t;
    at_case_strides(&from, c, id);
    memcpy(t.dim, from.shape, sizeof t.dim);
    memcpy(t.stride, from.stride, sizeof t.stride);
    if (c->layout == AT_THD && !(c->page > 0 && (id == AT_K || id == AT_V))) {
        t.stride[0] = t.dim[2] * t.stride[2];
    }
    return t;
}

/* The frontend's container is [pages h page d] whatever the strides. */
static at_cudnn_tensor place_pages(const at_case *c, at_tensor_id id)
{
    at_cudnn_tensor t = place(c, id);
    t.dim[0] = at_case_pages(c);
    t.dim[2] = c->page;
    return t;
}

static void place_all(at_cudnn_spec *out, const at_case *c)
{
    at_case train = *c;
    train.pass = AT_PASS_TRAIN; /* dout has a place in every case */
    out->q = place(c, AT_Q);
    out->k = c->page > 0 ? place_pages(c, AT_K) : place(c, AT_K);
    out->v = c->page > 0 ? place_pages(c, AT_V) : place(c, AT_V);
    out->o = place(c, AT_O);
    out->dout = c->page > 0 ? out->o : place(&train, AT_DO);
}

/* attest keeps keys i+off-wl <= j <= i+off+wr; cuDNN keeps j > i+shift-left and j <= i+shift+right,
 * with shift 0 or, bottom right, len_kv - len_q. */
static void set_bounds(at_cudnn_spec *out, const at_case *c)
{
    const int64_t off = c->align >= 0 ? c->align : 0;
    out->bottom_right = c->align == AT_ALIGN_BR && c->mask != AT_MASK_NONE;
    out->has_left = c->mask != AT_MASK_NONE && c->window_left != AT_UNBOUNDED;
    out->left = out->has_left ? c->window_left + 1 - off : 0;
    const bool causal = c->mask == AT_MASK_CAUSAL;
    out->has_right = causal || (c->mask == AT_MASK_BAND && c->window_right != AT_UNBOUNDED);
    out->right = out->has_right ? (causal ? 0 : c->window_right) + off : 0;
}

static void set_extras(at_cudnn_spec *out, const at_case *c, bool backward)
{
    const bool dense = c->amask != AT_AMASK_NONE, rel = c->bias >= AT_BIAS_REL_11;
    const int cast =
        dense ? at_amask_broadcast((at_amask)c->amask) : at_bias_broadcast((at_bias)c->bias);
    out->bias = dense || rel;
    out->bias_batch = out->bias && (cast & 1) ? c->batch : 1;
    out->bias_heads = out->bias && (cast & 2) ? c->heads_q : 1;
    out->dbias = backward && rel && (c->grads & AT_GRAD_B) != 0;
    out->alibi = c->bias == AT_BIAS_ALIBI;
    out->has_dropout = c->dropout > 0;
    out->dropout = (float)c->dropout;
    out->sink = c->sink == AT_SINK_LEARNED;
    out->dsink = backward && out->sink && (c->grads & AT_GRAD_S) != 0;
    out->deterministic = c->deterministic != 0;
}

at_status at_cudnn_spec_init(at_cudnn_spec *out, const at_case *c, at_step step, int sm,
                             at_reason *why)
{
    memset(out, 0, sizeof *out);
    AT_TRY(check(c, step, why));
    const bool backward = step == AT_STEP_BACKWARD;
    out->backward = backward;
    out->type = type_of(c->dtype);
    out->out_type = type_of(c->odt);
    out->sm = sm;
    out->heuristics = "AF";
    out->scale = (float)(isfinite(c->scale) ? c->scale : 1 / sqrt((double)c->dim_qk));
    out->stats = c->pass != AT_PASS_FWD;
    out->ragged = c->layout == AT_THD;
    out->padding = c->lens != AT_LENS_NONE || c->lens_q.n > 0 || out->ragged || c->page > 0;
    out->page = c->page;
    out->len_kv = c->len_kv;
    place_all(out, c);
    set_bounds(out, c);
    set_extras(out, c, backward);
    return AT_OK;
}

static bool starts(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

void at_cudnn_spec_as_asked(at_case *c, const char *selector)
{
    const bool te = starts(selector, "te-") || starts(selector, "te@") || starts(selector, "nvte-");
    const bool torch = starts(selector, "torch-");
    const bool lengths = c->lens != AT_LENS_NONE || c->lens_q.n > 0;
    if (c->align == AT_ALIGN_BR && (torch || (te && c->len_q == c->len_kv && !lengths))) {
        c->align = AT_ALIGN_TL;
    }
    if (torch && c->bias == AT_BIAS_ALIBI) {
        c->bias = AT_BIAS_REL_BH;
    }
}
