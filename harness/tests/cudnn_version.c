/* A library in the place of libcudnn that says one thing: which release it is. The frontend's
 * validation asks nothing else. */
#include <stddef.h>

__attribute__((visibility("default"))) size_t cudnnGetVersion(void);
__attribute__((visibility("default"))) void attest_cudnn_version(size_t version);

static size_t said = 91900;

size_t cudnnGetVersion(void)
{
    return said;
}

/* 91900 for 9.19.0 */
void attest_cudnn_version(size_t version)
{
    said = version;
}
