/* Packages for the CPU behind kernels/python/cpu, one test an adapter; skipped where the package is
 * not installed. `make python-packages` installs them below .cache/; ATTEST_PYTHON names another
 * Python. */
#include "harness/tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/tests/tool.h"

static const char *python(void)
{
    static char path[1024];
    const char *given = getenv("ATTEST_PYTHON");
    (void)snprintf(path, sizeof path, "%s", given != NULL ? given : "");
    if (given == NULL) {
        (void)snprintf(path, sizeof path, "%s/.cache/python/bin/python", AT_TEST_SOURCE);
    }
    return access(path, X_OK) == 0 ? path : "python3";
}

/* Skips the test unless Python has the modules ("a, b"). */
static void need_modules(const char *modules)
{
    char line[2048], why[256];
    (void)snprintf(line, sizeof line, "%s -c 'import %s' >%s/import.txt 2>&1", python(), modules,
                   at_test_folder());
    if (system(line) != 0) {
        (void)snprintf(why, sizeof why, "%.40s cannot import %.100s; `make python-packages` helps",
                       strrchr(python(), '/') != NULL ? "the packages' Python" : python(), modules);
        at_test_skip(why);
    }
}

/* Runs the cases on backends that the adapter brings; lines of the results. */
static char *sweep(const char *adapter, const char *backends, const char *engine, const char *cases)
{
    char folder[1024];
    (void)snprintf(folder, sizeof folder, "%s", AT_TEST_TOOL);
    *strrchr(folder, '/') = '\0';
    const at_tool *t = at_tool_run("sweep %s --backend %s --engine %s --jobs 1 -o out --worker "
                                   "'LIBATTEST=%s/libattest.so.1 exec %s %s/worker.py %s'",
                                   cases, backends, engine, folder, python(),
                                   AT_TEST_SOURCE "/kernels/python/cpu", adapter);
    CHECK_INT(t->code, 0);
    return at_tool_read("out/results.jsonl");
}

static void test_ort_attention(void)
{
    need_modules("onnxruntime, onnx");
    char *lines = sweep("ort_attention", "ort.attention23,ort.attention24,ort.attention25", "first",
                        "b=2:hq=4:hkv=2:sq=5:skv=9:dqk=8:dv=16:dtype=f32,f16:layout=bhsd,bshd:"
                        "mask=causal:align=tl,br:softcap=0,3:pass=fwd "
                        "b=2:hq=2:sq=7:dqk=8:dtype=f32:layout=bhsd:amask=bool.b1,add.1h:deadrows=1:"
                        "pass=fwd b=2:sq=4:skv=9:dqk=8:dtype=f32:layout=bhsd:lens=random:pass=fwd");
    /* 18 cases on three backends, and lengths on two of them. */
    CHECK_INT(at_tool_count(lines, "\"engine\":\"fixed\",\"status\":\"PASS\""), 18 * 3 + 2);
    CHECK_INT(at_tool_count(lines, "nonpad_kv_seqlen came with opset 24"), 1);
    free(lines);
}

static void test_ort_contrib(void)
{
    need_modules("onnxruntime, onnx");
    char *lines = sweep("ort_contrib", "ort.mha,ort.gqa", "all",
                        "b=2:hq=4:sq=9:dqk=8:dtype=f32,f16:mask=causal:align=br:pass=fwd "
                        "b=2:hq=4:hkv=2:sq=1:skv=9:dqk=8:dtype=f32:mask=causal:align=br:"
                        "lenq=1+1:lenkv=4+9:softcap=0,2:pass=fwd "
                        "b=2:hq=2:sq=3:skv=8:dqk=8:dtype=f32:mask=causal:align=br:lenq=1+3:"
                        "lenkv=4+8:pass=fwd b=1:hq=2:sq=6:dqk=8:dtype=f32:mask=causal:wl=0,2:"
                        "sink=none,learned:pass=fwd");
    CHECK_INT(at_tool_count(lines, "\"backend\":\"ort.mha\""), 2 * 3 + 7);
    CHECK_INT(at_tool_count(lines, "\"engine\":\"fixed\",\"status\":\"PASS\""), 2 + 9);
    free(lines);
}

static void test_onnx_reference(void)
{
    need_modules("onnx");
    char *lines = sweep("onnx_reference", "onnx.reference", "all",
                        "b=2:hq=4:hkv=2:sq=5:skv=9:dqk=8:dtype=f32,f16:layout=bhsd,bshd:mask=band:"
                        "wl=0,2:wr=1:pass=fwd");
    CHECK_INT(at_tool_count(lines, "\"engine\":\"numpy\",\"status\":\"PASS\""), 8);
    free(lines);
}

static void test_jax(void)
{
    need_modules("jax");
    char *lines = sweep("jax_xla", "jax.xla,jax.residual", "all",
                        "hq=4:hkv=2:sq=5:dqk=8:dtype=f32,bf16:mask=causal:pass=train "
                        "sq=5:dqk=8:dtype=f32:pass=stats");
    CHECK_INT(at_tool_count(lines, "\"engine\":\"jit\",\"status\":\"PASS\""), 2 + 1);
    free(lines);
}

static void test_torch(void)
{
    need_modules("torch, ml_dtypes");
    char *lines = sweep("torch_cpu", "torch.cpu.flash,torch.cpu.math", "all",
                        "hq=4:hkv=2:sq=5:dqk=8:dtype=f32,bf16:mask=causal:stride=packed,row_gap "
                        "sq=5:skv=7:dqk=8:dtype=f32:layout=sbhd:amask=bool.11:deadrows=1");
    CHECK_INT(at_tool_count(lines, "\"engine\":\"cpu\",\"status\":\"PASS\""), 5 * 2);
    free(lines);
}

/* An adapter that scales wrongly by 2 % is found out. */
static void test_wrong_adapter(void)
{
    char line[4096];
    need_modules("onnxruntime, onnx");
    (void)snprintf(line, sizeof line,
                   "mkdir -p %s/wrong && cp %s/kernels/python/cpu/*.py %s/wrong && sed -i "
                   "'s/= float(case.\"scale\".)/= 1.02 * float(case[\"scale\"])/' "
                   "%s/wrong/onnx_model.py",
                   at_test_folder(), AT_TEST_SOURCE, at_test_folder(), at_test_folder());
    CHECK_INT(system(line), 0);
    char folder[1024];
    (void)snprintf(folder, sizeof folder, "%s", AT_TEST_TOOL);
    *strrchr(folder, '/') = '\0';
    const at_tool *t =
        at_tool_run("sweep hq=2:sq=9:dqk=8:dtype=f32:layout=bhsd:scale=0.5:pass=fwd --backend "
                    "ort.attention23 -o wrong-out --worker 'LIBATTEST=%s/libattest.so.1 exec %s "
                    "wrong/worker.py ort_attention'",
                    folder, python());
    CHECK_INT(t->code, 1);
    char *lines = at_tool_read("wrong-out/results.jsonl");
    CHECK_HAS(lines, "\"status\":\"WRONG\"");
    free(lines);
}

const at_test at_tests[] = {
    {"cli", "ort_attention", test_ort_attention},
    {"cli", "ort_contrib", test_ort_contrib},
    {"cli", "onnx_reference", test_onnx_reference},
    {"cli", "jax", test_jax},
    {"cli", "torch", test_torch},
    {"cli", "wrong_adapter", test_wrong_adapter},
    {NULL, NULL, NULL},
};
