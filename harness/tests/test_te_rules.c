/* corpus/selectors/te-2.10.json: decisions checked by hand against the sources of that release, and
 * by running its two functions on the same calls. */
#include "harness/tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/select/selector.h"

typedef struct row {
    const char *text, *env, *winner, *admitted, *refused; /* backend:rule, in declaration order */
} row;

/* clang-format off */
static const row rows[] = {
    {"b=1:hq=16:hkv=1:sq=4096:dtype=bf16:layout=sbhd:dqk=192:dv=128:mask=causal:pass=train", "arch=sm90,fa3=2025-02,fused=0",
     "fa3", "fa3 unfused", "fa2:mla.fa2 fused:env.fused"},
    {"b=1:hq=16:hkv=1:sq=4096:dtype=bf16:layout=sbhd:dqk=160:dv=128:mask=causal:pass=train", "arch=sm90,fa3=2025-02,fused=0",
     "fa3", "fa3 unfused", "fa2:mla.fa2 fused:env.fused"},
    {"b=1:hq=16:hkv=1:sq=4096:dtype=bf16:layout=sbhd:dqk=64:dv=128:mask=causal:pass=train", "arch=sm90,fa3=2025-02,fused=0",
     "fa3", "fa3 unfused", "fa2:mla.fa2 fused:env.fused"},
    {"b=1:hq=16:hkv=1:sq=4096:dtype=bf16:layout=sbhd:dqk=64:dv=512:mask=causal:pass=train", "arch=sm90,fa3=2025-02,fused=0",
     "fa3", "fa3 unfused", "fa2:mla.fa2 fused:env.fused"},
    {"b=1:hq=16:hkv=1:sq=4096:dtype=bf16:layout=sbhd:dqk=128:dv=64:mask=causal:pass=train", "arch=sm90,fa3=2025-02,fused=0",
     "unfused", "unfused", "fa2:mla.fa2 fa3:fa3.hdim fused:env.fused"},
    {"b=1:hq=16:hkv=1:sq=4096:dtype=bf16:layout=sbhd:dqk=256:dv=128:mask=causal:pass=train", "arch=sm90,fa3=2025-02,fused=0",
     "unfused", "unfused", "fa2:mla.fa2 fa3:fa3.hdim fused:env.fused"},
    {"b=1:hq=16:hkv=1:sq=4096:dtype=bf16:layout=sbhd:dqk=192:dv=128:mask=causal:pass=fwd", "arch=sm90,fa3=2025-02,fused=0",
     "fa3", "fa3 unfused", "fa2:mla.fa2 fused:env.fused"},
    {"b=1:hq=16:hkv=1:sq=4096:dtype=bf16:layout=sbhd:dqk=160:dv=128:mask=causal:pass=fwd", "arch=sm90,fa3=2025-02,fused=0",
     "fa3", "fa3 unfused", "fa2:mla.fa2 fused:env.fused"},
    {"b=1:hq=16:hkv=1:sq=4096:dtype=bf16:layout=sbhd:dqk=64:dv=128:mask=causal:pass=fwd", "arch=sm90,fa3=2025-02,fused=0",
     "fa3", "fa3 unfused", "fa2:mla.fa2 fused:env.fused"},
    {"b=1:hq=16:hkv=1:sq=4096:dtype=bf16:layout=sbhd:dqk=64:dv=512:mask=causal:pass=fwd", "arch=sm90,fa3=2025-02,fused=0",
     "fa3", "fa3 unfused", "fa2:mla.fa2 fused:env.fused"},
    {"b=1:hq=16:hkv=1:sq=4096:dtype=bf16:layout=sbhd:dqk=128:dv=64:mask=causal:pass=fwd", "arch=sm90,fa3=2025-02,fused=0",
     "unfused", "unfused", "fa2:mla.fa2 fa3:fa3.hdim fused:env.fused"},
    {"b=1:hq=16:hkv=1:sq=4096:dtype=bf16:layout=sbhd:dqk=256:dv=128:mask=causal:pass=fwd", "arch=sm90,fa3=2025-02,fused=0",
     "unfused", "unfused", "fa2:mla.fa2 fa3:fa3.hdim fused:env.fused"},
    {"b=1:hq=16:hkv=1:sq=4096:dtype=bf16:layout=sbhd:dqk=192:dv=128:mask=causal:wl=127", "arch=sm90,fa3=2025-02,fused=0",
     "fa3", "fa3 unfused", "fa2:mla.fa2 fused:env.fused"},
    {"b=1:hq=16:hkv=1:sq=4096:dtype=bf16:layout=sbhd:dqk=64:dv=512:mask=causal:wl=127", "arch=sm90,fa3=2025-02,fused=0",
     "fa3", "fa3 unfused", "fa2:mla.fa2 fused:env.fused"},
    {"b=1:hq=16:hkv=1:sq=4096:dtype=bf16:layout=sbhd:dqk=192:dv=128:mask=causal", "arch=sm90,fa3=2025-02",
     "fused", "fa3 fused unfused", "fa2:mla.fa2"},
    {"b=1:hq=16:hkv=1:sq=4096:dtype=bf16:layout=sbhd:dqk=192:dv=128:mask=causal", "arch=sm90,fused=0",
     "unfused", "unfused", "fa2:mla.fa2 fa3:fa3.installed fused:env.fused"},
    {"b=1:hq=16:hkv=1:sq=4096:dtype=bf16:layout=sbhd:dqk=192:dv=128:mask=causal", "arch=sm100,fa3=2025-02,fused=0",
     "unfused", "unfused", "fa2:mla.fa2 fa3:fa3.not_sm90 fused:env.fused"},
    {"b=1:hq=16:hkv=1:sq=4096:dtype=bf16:layout=sbhd:dqk=192:dv=128:mask=causal", "arch=sm100,fa3=2025-02",
     "fused", "fused unfused", "fa2:mla.fa2 fa3:fa3.not_sm90"},
    {"hq=8:sq=1024:dqk=136:dv=104", "arch=sm90,fa3=2025-02,fused=0",
     "fa3", "fa3 unfused", "fa2:mla.fa2 fused:env.fused"},
    {"hq=8:sq=1024:dqk=136:dv=96", "arch=sm90,fa3=2025-02,fused=0",
     "unfused", "unfused", "fa2:mla.fa2 fa3:fa3.hdim fused:env.fused"},
    {"hq=8:sq=1024:dqk=136:dv=128", "arch=sm90,fa3=2025-02,fused=0",
     "fa3", "fa3 unfused", "fa2:mla.fa2 fused:env.fused"},
    {"hq=8:sq=1024:dqk=136:dv=136", "arch=sm90,fa3=2025-02,fused=0",
     "fa3", "fa2 fa3 unfused", "fused:env.fused"},
    {"hq=8:sq=1024:dqk=200:dv=128", "arch=sm90,fa3=2025-02,fused=0",
     "unfused", "unfused", "fa2:mla.fa2 fa3:fa3.hdim fused:env.fused"},
    {"hq=8:sq=1024:dqk=192:dv=96", "arch=sm90,fa3=2025-02,fused=0",
     "unfused", "unfused", "fa2:mla.fa2 fa3:fa3.hdim fused:env.fused"},
    {"hq=8:sq=1024:dqk=72:dv=64", "arch=sm90,fa3=2025-02,fused=0",
     "unfused", "unfused", "fa2:mla.fa2 fa3:fa3.hdim fused:env.fused"},
    {"hq=8:sq=1024:dqk=56:dv=512", "arch=sm90,fa3=2025-02,fused=0",
     "fa3", "fa3 unfused", "fa2:mla.fa2 fused:env.fused"},
    {"hq=8:sq=1024:dqk=64:dv=520", "arch=sm90,fa3=2025-02,fused=0",
     "unfused", "unfused", "fa2:mla.fa2 fa3:fa3.hdim fused:env.fused"},
    {"hq=8:sq=1024:dqk=8:dv=64", "arch=sm90,fa3=2025-02,fused=0",
     "fa3", "fa3 unfused", "fa2:mla.fa2 fused:env.fused"},
    {"hq=8:sq=1024:dqk=264:dv=264", "arch=sm90,fa3=2025-02,fused=0",
     "unfused", "unfused", "fa2:fa2.hdim fa3:fa3.hdim fused:env.fused"},
    {"hq=8:sq=1024:dqk=256:dv=256", "arch=sm90,fa3=2025-02,fused=0",
     "fa3", "fa2 fa3 unfused", "fused:env.fused"},
    {"hq=8:sq=1024:dqk=100", "arch=sm90,fa3=2025-02,fused=0",
     "fa3", "fa3 unfused", "fa2:fa2.hdim fused:env.fused"},
    {"hq=8:sq=1024:dqk=100", "arch=sm90,fa3=2025-02,fused=0,fa2=none",
     "fa3", "fa3 unfused", "fa2:fa2.hdim fused:env.fused"},
    {"hq=8:sq=1024:dqk=128", "arch=sm80,cudnn=9.13.0",
     "fa2", "fa2 fused unfused", "fa3:fa3.not_sm90"},
    {"hq=8:sq=1024:dqk=224", "arch=sm80,fused=0",
     "fa2", "fa2 unfused", "fa3:fa3.not_sm90 fused:env.fused"},
    {"hq=8:sq=1024:dqk=224", "arch=sm86,fused=0",
     "unfused", "unfused", "fa2:fa2.hdim fa3:fa3.not_sm90 fused:env.fused"},
    {"hq=8:sq=1024:dqk=128", "arch=sm90",
     "fused", "fa2 fused unfused", "fa3:fa3.installed"},
    {"hq=8:sq=1024:dqk=128", "arch=sm90,flash=0,fused=0",
     "unfused", "unfused", "fa2:env.flash fa3:env.flash fused:env.fused"},
    {"hq=8:sq=1024:dqk=128", "arch=sm90,flash=0,fused=0,unfused=0",
     "", "", "fa2:env.flash fa3:env.flash fused:env.fused unfused:env.unfused"},
    {"hq=8:sq=1024:dqk=128", "arch=sm90,fa3=2025-02,fused=0",
     "fa3", "fa2 fa3 unfused", "fused:env.fused"},
    {"hq=8:sq=1024:dqk=128", "arch=sm90,fa3=2025-02,fused=0,fa2=2.8.3.post1",
     "fa3", "fa3 unfused", "fa2:fa2.installed fused:env.fused"},
    {"hq=8:sq=1024:dqk=128", "arch=sm90,fused=0,fa2=2.8.3.post1",
     "unfused", "unfused", "fa2:fa2.installed fa3:fa3.installed fused:env.fused"},
    {"hq=8:sq=1024:dqk=128", "arch=sm100,fused=0,fa2=2.7.2",
     "unfused", "unfused", "fa2:fa2.installed fa3:fa3.not_sm90 fused:env.fused"},
    {"hq=8:sq=1024:dqk=128:dropout=0.125", "arch=sm90,fa3=2025-02,fused=0",
     "fa2", "fa2 unfused", "fa3:dropout.fa3 fused:env.fused"},
    {"hq=8:sq=1024:dqk=128:sink=learned", "arch=sm90,fa3=2025-02,fused=0",
     "unfused", "unfused", "fa2:sink.flash fa3:sink.flash fused:env.fused"},
    {"hq=8:sq=1024:dqk=128:bias=alibi", "arch=sm90,fa3=2025-02,fused=0",
     "fa2", "fa2 unfused", "fa3:alibi.fa3 fused:env.fused"},
    {"hq=8:sq=1024:dqk=128:bias=rel.1h", "arch=sm90,fa3=2025-02,fused=0",
     "unfused", "unfused", "fa2:bias.flash fa3:bias.flash fused:env.fused"},
    {"hq=8:sq=1024:dqk=128:amask=bool.11", "arch=sm90,fa3=2025-02,fused=0",
     "unfused", "unfused", "fa2:mask.arbitrary fa3:mask.arbitrary fused:env.fused"},
    {"hq=8:sq=1024:dqk=128:mask=causal:skv=2048", "arch=sm90,fa3=2025-02,fused=0",
     "unfused", "unfused", "fa2:mask.causal_cross fa3:mask.causal_cross fused:env.fused"},
    {"hq=8:sq=1024:dqk=128:mask=causal:align=br:skv=2048", "arch=sm90,fa3=2025-02,fused=0",
     "fa3", "fa2 fa3 unfused", "fused:env.fused"},
    {"hq=8:sq=1024:dqk=128:dtype=f32", "arch=sm90,fa3=2025-02,fused=0",
     "unfused", "unfused", "fa2:dtype.fa2 fa3:dtype.fa3_fused fused:env.fused"},
    {"hq=8:sq=1024:dqk=128:layout=thd:lens=random:mask=causal", "arch=sm90,fa3=2025-02,fused=0",
     "fa3", "fa2 fa3", "fused:env.fused unfused:thd.unfused"},
    {"hq=8:sq=1024:dqk=128:layout=thd:lens=random:mask=causal:gap=8", "arch=sm90,fa3=2025-02,fused=0",
     "", "", "fa2:thd.pad fa3:thd.pad fused:env.fused unfused:thd.unfused"},
    {"hq=8:sq=1024:dqk=128:layout=bhsd", "arch=sm90,fa3=2025-02,fused=0",
     "", "", "fa2:dpa.format fa3:dpa.format fused:dpa.format unfused:dpa.format"},
    {"hq=8:sq=1024:dqk=128:dtype=f8e4m3:pass=fwd", "arch=sm90,fa3=2025-02,fused=0",
     "fa3", "fa3", "fa2:fp8.fa2 fused:env.fused unfused:fp8.unfused"},
    {"hq=8:sq=1024:dqk=128:softcap=30", "arch=sm90,fa3=2025-02,fused=0",
     "", "", "fa2:dpa.softcap fa3:dpa.softcap fused:dpa.softcap unfused:dpa.softcap"},
    {"hq=8:sq=1024:dqk=128:splits=4:pass=fwd", "arch=sm90,fa3=2025-02,fused=0",
     "fa3", "fa3", "fa2:splits fused:env.fused unfused:splits"},
    {"hq=8:sq=1024:dqk=128:page=16:lens=random:pass=fwd", "arch=sm90,fa3=2025-02,fused=0",
     "fa3", "fa3 unfused", "fa2:kv.fa2_page fused:env.fused"},
    {"hq=8:sq=1024:dqk=128:page=256:lens=random:pass=fwd", "arch=sm90,fa3=2025-02,fused=0",
     "fa3", "fa2 fa3 unfused", "fused:env.fused"},
    {"hq=8:sq=1024:dqk=128:det=1", "arch=sm90,fa2=2.4.0,fused=0",
     "unfused", "unfused", "fa2:det.fa2 fa3:fa3.installed fused:env.fused"},
    {"hq=8:sq=1024:dqk=128:det=1", "arch=sm100",
     "fa2", "fa2 unfused", "fa3:fa3.not_sm90 fused:det.fused"},
    {"hq=8:sq=1024:dqk=128:mask=band:wl=64:wr=64", "arch=sm90",
     "fa2", "fa2 unfused", "fa3:fa3.installed fused:swa.fused"},
    {"hq=8:sq=1024:dqk=128:mask=causal:wl=64", "arch=sm90,fa2=2.2.0",
     "fused", "fused unfused", "fa2:swa.fa2 fa3:fa3.installed"},
    {"hq=8:sq=1024:dqk=128:mask=band:wl=64", "arch=sm90,fa3=2025-02,fused=0",
     "", "", "fa2:dpa.window fa3:dpa.window fused:dpa.window unfused:dpa.window"},
    {"hq=6:hkv=4:invalid=1:sq=1024:dqk=128", "arch=sm90,fa3=2025-02,fused=0",
     "", "", "fa2:dpa.heads fa3:dpa.heads fused:dpa.heads unfused:dpa.heads"},
    {"hq=8:dqk=64:sq=512:dtype=f16", "arch=sm90,cudnn=8.9.1",
     "fused", "fa2 fused unfused", "fa3:fa3.installed"},
    {"hq=8:sq=1024:dqk=192:dv=160", "arch=sm90,cudnn=9.13.0",
     "unfused", "unfused", "fa2:mla.fa2 fa3:fa3.hdim fused:cudnn.dims"},
    {"hq=8:sq=1024:dqk=128:lens=random:bias=rel.1h", "arch=sm90",
     "unfused", "unfused", "fa2:bias.flash fa3:bias.flash fused:cudnn.mask_bias"},
    {"hq=8:sq=1024:dqk=128", "arch=sm90,cudnn=none", "", "",
     "fa2:import.cudnn fa3:import.cudnn fused:import.cudnn unfused:import.cudnn"},
    {"hq=8:sq=1024:dqk=128", "arch=sm90,cudnn=9.10.0",
     "fa2", "fa2 unfused", "fa3:fa3.installed fused:cudnn.release"},
    {"hq=8:sq=1024:dqk=128:mask=causal", "arch=sm90,fa3=2025-02,fused=0,te.cp=1",
     "fa3", "fa2 fa3", "fused:env.fused unfused:cp.unfused"},
    {"hq=8:sq=1024:dqk=128:mask=causal:align=br", "arch=sm90,fa3=2025-02,fused=0,te.cp=1",
     "", "", "fa2:cp.flash fa3:cp.flash fused:env.fused unfused:cp.unfused"},
    {"hq=8:sq=1024:dqk=128", "arch=sm90,fa3=2025-02,fused=0,te.max_logit=1",
     "unfused", "unfused", "fa2:max_logit.flash fa3:max_logit.flash fused:env.fused"},
};
/* clang-format on */

static void append(char *list, size_t room, const char *a, const char *b)
{
    size_t used = strlen(list);
    (void)snprintf(list + used, room - used, "%s%s%s%s", used > 0 ? " " : "", a,
                   b != NULL ? ":" : "", b != NULL ? b : "");
}

static void check_row(const row *r)
{
    at_error err = {""};
    at_env *env = NULL;
    at_selector *s = NULL;
    at_case c;
    at_selection d;
    char admitted[200] = "", refused[400] = "";
    CHECK_OK(at_env_set(&env, r->env, &err), &err);
    CHECK_OK(at_selector_open(&s, AT_TEST_CORPUS, "te-2.10", env, &err), &err);
    CHECK_OK(at_case_parse(&c, r->text, &err), &err);
    if (s == NULL) {
        at_env_close(env);
        return;
    }
    CHECK_OK(at_selector_decide(&d, s, &c, &err), &err);
    for (int i = 0; i < d.admitted_count; i++) {
        append(admitted, sizeof admitted, d.admitted[i], NULL);
    }
    for (int i = 0; i < d.refused_count; i++) {
        append(refused, sizeof refused, d.refused[i].backend, d.refused[i].rule);
        CHECK_HAS(d.refused[i].source, "https://github.com/NVIDIA/TransformerEngine/blob/v2.10/");
        CHECK(strlen(d.refused[i].why) > 10);
    }
    if (strcmp(d.winner != NULL ? d.winner : "", r->winner) != 0 ||
        strcmp(admitted, r->admitted) != 0 || strcmp(refused, r->refused) != 0) {
        at_test_fail(__FILE__, __LINE__, "%s with %s: winner %s of \"%s\", refused \"%s\"", r->text,
                     r->env, d.winner != NULL ? d.winner : "none", admitted, refused);
    }
    at_selector_close(s);
    at_env_close(env);
}

static void test_table(void)
{
    size_t count = sizeof rows / sizeof *rows;
    CHECK(count >= 40);
    for (size_t i = 0; i < count; i++) {
        check_row(&rows[i]);
    }
}

const at_test at_tests[] = {{"unit", "table", test_table}, {NULL, NULL, NULL}};
