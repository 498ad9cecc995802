/* One hot loop compiled for several x86-64 levels, the best one chosen at load time. Results do not
 * depend on the level: no contraction, no reassociation. Empty under sanitizers (resolvers run
 * before their runtime is up), clang and other machines. */
#ifndef AT_CLONES_H
#define AT_CLONES_H

#include <stddef.h>

#if defined __x86_64__ && defined __GNUC__ && !defined __clang__ && !defined AT_SANITIZED &&       \
    defined __linux__
#define AT_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define AT_CLONES
#endif

/* Bodies of cloned loops: inlined into every clone, so that they are compiled for its level. */
#if defined __GNUC__
#define AT_INLINE static inline __attribute__((always_inline))
#else
#define AT_INLINE static inline
#endif

#endif
