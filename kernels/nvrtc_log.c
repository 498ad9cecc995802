/* What the run-time compiler says of kernels that do not compile: an auditing library of the
 * dynamic loader, for the process that builds plans.
 *
 *     LD_AUDIT=build/libattest_nvrtc_log.so build/attest select CASE --selector cudnn --stage plans
 *
 * It stands in for nvrtcCompileProgram wherever a library looks it up, and prints the compiler's
 * log of each failure on stderr. Source: rtld-audit(7); NVRTC's nvrtc.h. */
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef int (*compile)(void *program, int count, const char *const *options);
typedef int (*log_size)(void *program, size_t *size);
typedef int (*log_text)(void *program, char *text);

static compile real_compile;
static log_size real_size;
static log_text real_text;

static int compile_and_tell(void *program, int count, const char *const *options)
{
    const int result = real_compile(program, count, options);
    size_t size = 0;
    if (result != 0 && real_size != NULL && real_text != NULL && real_size(program, &size) == 0) {
        char *text = calloc(size + 1, 1);
        if (text != NULL && real_text(program, text) == 0) {
            (void)fprintf(stderr, "attest: nvrtcCompileProgram returns %d:\n%s\n", result, text);
        }
        free(text);
    }
    return result;
}

EXPORT unsigned la_version(unsigned version);
EXPORT unsigned la_objopen(struct link_map *map, Lmid_t id, uintptr_t *cookie);
EXPORT uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to,
                              unsigned *flags, const char *name);

unsigned la_version(unsigned version)
{
    return version < LAV_CURRENT ? version : LAV_CURRENT;
}

unsigned la_objopen(struct link_map *map, Lmid_t id, uintptr_t *cookie)
{
    (void)id;
    *cookie = (uintptr_t)map;
    return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

/* The address of another function of the library that defines the symbol. */
static uintptr_t beside(const struct link_map *map, const char *wanted)
{
    const ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    const uint32_t *hash = NULL;
    for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
        symbols = d->d_tag == DT_SYMTAB ? (const ElfW(Sym) *)d->d_un.d_ptr : symbols;
        names = d->d_tag == DT_STRTAB ? (const char *)d->d_un.d_ptr : names;
        hash = d->d_tag == DT_GNU_HASH ? (const uint32_t *)d->d_un.d_ptr : hash;
    }
    if (symbols == NULL || names == NULL || hash == NULL) {
        return 0;
    }
    const uint32_t buckets = hash[0], first = hash[1], words = hash[2];
    const uint32_t *bucket = hash + 4 + 2 * words, *chain = bucket + buckets;
    for (uint32_t b = 0; b < buckets; b++) {
        for (uint32_t i = bucket[b]; i >= first && i != 0; i++) {
            if (strcmp(names + symbols[i].st_name, wanted) == 0) {
                return map->l_addr + symbols[i].st_value;
            }
            if ((chain[i - first] & 1) != 0) {
                break;
            }
        }
    }
    return 0;
}

uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to,
                       unsigned *flags, const char *name)
{
    (void)index, (void)from, (void)flags;
    const uintptr_t address = symbol->st_value;
    if (strcmp(name, "nvrtcCompileProgram") != 0) {
        return address;
    }
    const struct link_map *map = (const struct link_map *)*to;
    const uintptr_t size = beside(map, "nvrtcGetProgramLogSize"),
                    text = beside(map, "nvrtcGetProgramLog");
    memcpy(&real_compile, &address, sizeof address);
    memcpy(&real_size, &size, sizeof size);
    memcpy(&real_text, &text, sizeof text);
    compile ours = compile_and_tell;
    uintptr_t instead = 0;
    memcpy(&instead, &ours, sizeof instead);
    return instead;
}
