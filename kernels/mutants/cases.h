/* Small cases that the tables of planted faults share. */
#ifndef AT_MUTANT_CASES_H
#define AT_MUTANT_CASES_H

#include "kernels/mutants/mutants.h"

#define CASES_PLAIN                                                                                \
    {                                                                                              \
        "b=2:hq=2:sq=40:skv=72:dqk=32",                                                            \
            "hq=4:hkv=2:sq=65:skv=130:dqk=64:dtype=f16:mask=causal:align=br",                      \
            "hq=2:sq=33:skv=47:dqk=24:dv=16:dtype=f32:layout=sbhd:fill=uniform01"                  \
    }
#define CASES_CAUSAL                                                                               \
    {                                                                                              \
        "hq=2:sq=70:skv=70:dqk=32:mask=causal",                                                    \
            "hq=2:sq=40:skv=100:dqk=64:mask=causal:align=br:dtype=f16",                            \
            "sq=50:skv=50:dqk=16:mask=causal:dtype=f32:layout=bhsd"                                \
    }
#define CASES_WINDOW                                                                               \
    {                                                                                              \
        "hq=2:sq=90:skv=90:dqk=32:mask=causal:wl=15",                                              \
            "hq=2:sq=60:skv=100:dqk=64:mask=band:align=br:wl=7:wr=3:dtype=f16",                    \
            "sq=70:skv=70:dqk=16:mask=band:wl=20:wr=0:dtype=f32"                                   \
    }
#define CASES_CORNER                                                                               \
    {                                                                                              \
        "hq=2:sq=40:skv=100:dqk=32:mask=causal:align=br",                                          \
            "hq=2:sq=60:skv=90:dqk=64:mask=causal:dtype=f16",                                      \
            "sq=50:skv=80:dqk=16:mask=band:align=br:wl=9:wr=0:dtype=f32"                           \
    }
#define CASES_LONG                                                                                 \
    {                                                                                              \
        "hq=2:sq=40:skv=200:dqk=32", "hq=2:sq=50:skv=300:dqk=64:mask=causal:align=br:dtype=f16",   \
            "sq=30:skv=270:dqk=16:dtype=f32"                                                       \
    }
#define CASES_PEAKY                                                                                \
    {                                                                                              \
        "hq=2:sq=40:skv=200:dqk=32:fill=peaky", "hq=2:sq=50:skv=300:dqk=64:fill=peaky:dtype=f16",  \
            "sq=30:skv=270:dqk=16:fill=outlier:dtype=f32"                                          \
    }
#define CASES_TAIL                                                                                 \
    {                                                                                              \
        "hq=2:sq=40:skv=72:dqk=32", "hq=2:sq=50:skv=130:dqk=64:fill=deep_neg:dtype=f16",           \
            "sq=30:skv=47:dqk=16:dtype=f32"                                                        \
    }
#define CASES_GROUP                                                                                \
    {                                                                                              \
        "hq=4:hkv=2:sq=40:skv=72:dqk=32",                                                          \
            "b=2:hq=6:hkv=3:sq=50:skv=64:dqk=64:dtype=f16:mask=causal",                            \
            "hq=8:hkv=2:sq=30:skv=40:dqk=16:dtype=f32:layout=bhsd"                                 \
    }
#define CASES_THD                                                                                  \
    {                                                                                              \
        "b=3:hq=2:sq=40:skv=40:dqk=32:layout=thd:lenq=30+40+7:lenkv=30+40+7",                      \
            "b=2:hq=2:sq=64:skv=64:dqk=64:dtype=f16:layout=thd:lens=full",                         \
            "b=2:sq=33:skv=50:dqk=16:dtype=f32:layout=thd:lenq=20+33:lenkv=50+11"                  \
    }
#define CASES_DEAD                                                                                 \
    {                                                                                              \
        "hq=2:sq=100:skv=40:dqk=32:mask=causal:align=br",                                          \
            "b=3:hq=2:sq=40:skv=64:dqk=64:dtype=f16:lenq=40+40+9:lenkv=64+0+10",                   \
            "b=2:sq=30:skv=40:dqk=16:dtype=f32:layout=thd:lenq=30+20:lenkv=0+40"                   \
    }
#define CASES_DEAD_WITH_KEYS                                                                       \
    {                                                                                              \
        "hq=2:sq=100:skv=40:dqk=32:mask=causal:align=br",                                          \
            "b=2:hq=2:sq=50:skv=20:dqk=64:dtype=f16:mask=band:align=br:wl=5:wr=0",                 \
            "sq=30:skv=10:dqk=16:dtype=f32:mask=causal:align=br:layout=sbhd"                       \
    }
#define CASES_CAP                                                                                  \
    {                                                                                              \
        "hq=2:sq=40:skv=72:dqk=32:softcap=2",                                                      \
            "hq=2:sq=50:skv=130:dqk=64:softcap=5:fill=peaky:dtype=f16",                            \
            "sq=30:skv=47:dqk=16:softcap=1:dtype=f32"                                              \
    }
#define CASES_UNEQUAL                                                                              \
    {                                                                                              \
        "hq=2:sq=40:skv=72:dqk=64:dv=32",                                                          \
            "hq=2:sq=50:skv=130:dqk=48:dv=96:dtype=f16:mask=causal:align=br",                      \
            "sq=30:skv=47:dqk=16:dv=64:dtype=f32"                                                  \
    }
#define CASES_PAD                                                                                  \
    {                                                                                              \
        "b=2:hq=2:sq=40:skv=72:dqk=32:lens=half",                                                  \
            "b=3:hq=2:sq=50:skv=64:dqk=64:dtype=f16:lenq=50+3+20:lenkv=64+64+9",                   \
            "b=2:sq=30:skv=47:dqk=16:dtype=f32:layout=sbhd:lenq=1+30:lenkv=47+5"                   \
    }
#define CASES_GAP                                                                                  \
    {                                                                                              \
        "b=3:hq=2:sq=40:skv=40:dqk=32:layout=thd:lens=full:gap=3",                                 \
            "b=2:hq=2:sq=64:skv=64:dqk=64:dtype=f16:layout=thd:lens=full:gap=1"                    \
    }
#define CASES_BATCH                                                                                \
    {                                                                                              \
        "b=3:hq=2:sq=40:skv=72:dqk=32", "b=2:hq=2:sq=50:skv=64:dqk=64:dtype=f16:mask=causal",      \
            "b=2:sq=30:skv=47:dqk=16:dtype=f32"                                                    \
    }
#define CASES_HALF                                                                                 \
    {                                                                                              \
        "hq=2:sq=192:skv=192:dqk=32", "hq=2:sq=64:skv=130:dqk=64:dtype=f16",                       \
            "sq=192:skv=64:dqk=16:dtype=f32"                                                       \
    }
#define CASES_HALF_KEYS                                                                            \
    {                                                                                              \
        "hq=2:sq=192:skv=192:dqk=32", "hq=2:sq=130:skv=64:dqk=64:dtype=f16",                       \
            "sq=64:skv=192:dqk=16:dtype=f32"                                                       \
    }
#define CASES_DEEP                                                                                 \
    {                                                                                              \
        "hq=2:sq=40:skv=72:dqk=32:fill=deep_neg",                                                  \
            "hq=2:sq=50:skv=130:dqk=64:fill=deep_neg:dtype=f16:mask=causal:align=br",              \
            "sq=30:skv=47:dqk=16:fill=deep_neg:dtype=f32"                                          \
    }
#define CASES_FLAT                                                                                 \
    {                                                                                              \
        "hq=2:sq=40:skv=1000:dqk=32:fill=uniform01",                                               \
            "hq=2:sq=50:skv=800:dqk=64:fill=uniform01:dtype=f16"                                   \
    }
#define CASES_EIGHT                                                                                \
    {                                                                                              \
        "hq=2:sq=40:skv=72:dqk=44", "hq=2:sq=50:skv=130:dqk=60:dtype=f16:mask=causal:align=br",    \
            "sq=30:skv=47:dqk=20:dtype=f32"                                                        \
    }
#define CASES_SIXTEEN                                                                              \
    {                                                                                              \
        "hq=2:sq=40:skv=72:dqk=40", "hq=2:sq=50:skv=130:dqk=56:dtype=f16:mask=causal:align=br",    \
            "sq=30:skv=47:dqk=24:dtype=f32"                                                        \
    }
#define CASES_WIDE                                                                                 \
    {                                                                                              \
        "hq=2:sq=40:skv=72:dqk=96", "hq=2:sq=50:skv=130:dqk=80:dtype=f16:mask=causal:align=br",    \
            "sq=30:skv=47:dqk=160:dtype=f32"                                                       \
    }
#define CASES_EIGHT_V                                                                              \
    {                                                                                              \
        "hq=2:sq=40:skv=72:dqk=32:dv=44",                                                          \
            "hq=2:sq=50:skv=130:dqk=60:dv=60:dtype=f16:mask=causal:align=br",                      \
            "sq=30:skv=47:dqk=16:dv=20:dtype=f32"                                                  \
    }
#define CASES_OFFSETS                                                                              \
    {                                                                                              \
        "b=9:hq=4:sq=64:skv=20:dqk=32", "b=9:hq=2:sq=64:skv=30:dqk=64:dtype=f16:layout=bhsd"       \
    }
#define CASES_PLAIN_HEADS                                                                          \
    {                                                                                              \
        "b=2:hq=2:sq=40:skv=72:dqk=32", "hq=4:hkv=2:sq=1:skv=130:dqk=64:dtype=f16",                \
            "hq=2:sq=33:skv=47:dqk=24:dtype=f32:layout=sbhd"                                       \
    }
#define CASES_RACY                                                                                 \
    {                                                                                              \
        "hq=2:sq=40:skv=400:dqk=64:dtype=f32", "hq=4:sq=150:skv=300:dqk=64:dtype=f16:det=1"        \
    }

#define CASES_DENSE                                                                                \
    {                                                                                              \
        "b=2:hq=2:sq=40:skv=72:dqk=32:amask=bool.b1",                                              \
            "b=2:hq=2:sq=50:skv=130:dqk=64:amask=add.1h:dtype=f16:mask=causal:align=br",           \
            "b=2:hq=2:sq=30:skv=47:dqk=16:amask=add.bh:dtype=f32"                                  \
    }
#define CASES_BIAS                                                                                 \
    {                                                                                              \
        "b=2:hq=2:sq=40:skv=72:dqk=32:bias=rel.1h:grads=qkvb",                                     \
            "hq=4:hkv=2:sq=50:skv=130:dqk=64:bias=rel.bh:grads=qkvb:dtype=f16",                    \
            "hq=3:sq=30:skv=47:dqk=16:bias=rel.1h:grads=b:dtype=f32"                               \
    }
#define CASES_ALIBI                                                                                \
    {                                                                                              \
        "hq=2:sq=40:skv=72:dqk=32:bias=alibi:align=br",                                            \
            "hq=4:hkv=2:sq=50:skv=130:dqk=64:bias=alibi:align=br:mask=causal:dtype=f16",           \
            "hq=3:sq=30:skv=47:dqk=16:bias=alibi:dtype=f32"                                        \
    }
#define CASES_SINK                                                                                 \
    {                                                                                              \
        "b=2:hq=2:sq=40:skv=72:dqk=32:sink=learned:grads=qkvs",                                    \
            "hq=4:hkv=2:sq=50:skv=130:dqk=64:sink=learned:mask=causal:align=br:dtype=f16",         \
            "hq=3:sq=30:skv=47:dqk=16:sink=learned:dtype=f32"                                      \
    }
#define CASES_LEARNED                                                                              \
    {                                                                                              \
        "b=2:hq=2:sq=40:skv=72:dqk=32:sink=learned:grads=qkvs",                                    \
            "hq=4:hkv=2:sq=50:skv=130:dqk=64:sink=learned:grads=s:mask=causal:align=br:dtype=f16", \
            "hq=3:sq=30:skv=47:dqk=16:sink=learned:grads=vs:dtype=f32"                             \
    }
#define CASES_DROP                                                                                 \
    {                                                                                              \
        "b=2:hq=2:sq=40:skv=72:dqk=32:dropout=0.25",                                               \
            "hq=4:hkv=2:sq=50:skv=130:dqk=64:dropout=0.5:mask=causal:align=br:dtype=f16",          \
            "hq=3:sq=30:skv=47:dqk=16:dropout=0.1:dtype=f32"                                       \
    }
#define CASES_FUSED                                                                                \
    {                                                                                              \
        "b=2:hq=2:sq=40:dqk=32:pack=qkv3h",                                                        \
            "hq=4:hkv=2:sq=50:skv=130:dqk=64:pack=kvh2:layout=bhsd:dtype=f16",                     \
            "b=2:hq=4:hkv=2:sq=30:skv=47:dqk=16:pack=kv2h:layout=thd:lens=random:dtype=f32"        \
    }
#define CASES_STRIDE                                                                               \
    {                                                                                              \
        "b=2:hq=2:sq=40:skv=72:dqk=32:stride=row_gap",                                             \
            "hq=4:hkv=2:sq=50:skv=130:dqk=64:stride=head_gap:layout=bhsd:dtype=f16",               \
            "hq=3:sq=30:dqk=16:pack=qkvh3:dtype=f32"                                               \
    }
#define CASES_PAGE                                                                                 \
    {                                                                                              \
        "b=3:hq=4:hkv=2:sq=8:skv=100:dqk=32:page=16:lens=full:pass=stats",                         \
            "b=2:hq=2:sq=1:skv=130:dqk=64:page=37:lens=full:pass=fwd:layout=bhsd:dtype=f16",       \
            "b=3:hq=2:sq=5:skv=90:dqk=16:page=1:lens=full:pass=stats:layout=thd:dtype=f32"         \
    }
#define CASES_FP8                                                                                  \
    {                                                                                              \
        "b=2:hq=2:sq=40:skv=72:dqk=32:dtype=f8e4m3:seed=3",                                        \
            "hq=4:hkv=2:sq=50:skv=130:dqk=64:mask=causal:align=br:dtype=f8e5m2:seed=2"             \
    }

#endif
