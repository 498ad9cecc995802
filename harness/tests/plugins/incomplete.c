/* A plugin whose backend lacks every function. */
#include "harness/backend.h"

AT_API const at_backend *const *attest_plugin(int abi);

const at_backend *const *attest_plugin(int abi)
{
    static const at_backend incomplete = {.name = "test.incomplete", .version = "1"};
    static const at_backend *const list[] = {&incomplete, NULL};
    return abi == AT_ABI ? list : NULL;
}
