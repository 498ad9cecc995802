/* Healthy kernels of every numeric class and formula that a backend may declare: what the judge
 * must accept. They compute as their class says; none stands in the registry. */
#ifndef AT_VARIANTS_H
#define AT_VARIANTS_H

#include "harness/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Each named variant.NAME; i < at_variant_count(). Those on cpu.flash have all its engines, those
 * on cpu.naive (scores stored, or nothing but f32) one. */
AT_API size_t at_variant_count(void);
AT_API const at_backend *at_variant_at(size_t i);
AT_API const at_backend *at_variant_find(const char *name); /* NULL: unknown */

#ifdef __cplusplus
}
#endif
#endif
