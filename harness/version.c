#include "harness/status.h"

const char *at_commit(void)
{
    return AT_COMMIT_TEXT;
}

const char *at_version(void)
{
    return AT_VERSION_TEXT " (commit " AT_COMMIT_TEXT ")";
}
