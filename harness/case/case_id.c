#include "harness/case/case.h"

#include <sys/types.h>
#include <sha256.h>

void at_case_id(const at_case *c, char id[AT_ID_TEXT])
{
    static const char digits[] = "0123456789abcdef";
    char text[AT_CASE_TEXT_MAX];
    uint8_t hash[SHA256_DIGEST_LENGTH];
    SHA2_CTX state;
    size_t length = at_case_print(c, text);
    SHA256Init(&state);
    SHA256Update(&state, (const uint8_t *)text, length);
    SHA256Final(hash, &state);
    for (int i = 0; i < (AT_ID_TEXT - 1) / 2; i++) {
        id[2 * i] = digits[hash[i] >> 4];
        id[2 * i + 1] = digits[hash[i] & 15];
    }
    id[AT_ID_TEXT - 1] = '\0';
}
