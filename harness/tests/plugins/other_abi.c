/* A plugin built for an ABI that no attest has. */
#include "harness/backend.h"

AT_API const at_backend *const *attest_plugin(int abi);

const at_backend *const *attest_plugin(int abi)
{
    static const at_backend *const list[] = {NULL};
    return abi == -1 ? list : NULL;
}
