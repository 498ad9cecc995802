#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/json.h"

#define PLAIN_INTEGER 1e15 /* smaller integers are written without an exponent */

/* "[-]digits" with a point before the last `decimals` of them. */
static size_t print_decimal(char text[AT_REAL_TEXT], bool negative, uint64_t digits, int decimals)
{
    char reversed[AT_REAL_TEXT];
    size_t n = 0, used = 0;
    for (int place = 0; digits != 0 || place <= decimals; place++, digits /= 10) {
        if (place == decimals && decimals > 0) {
            reversed[n++] = '.';
        }
        reversed[n++] = (char)('0' + digits % 10);
    }
    if (negative) {
        text[used++] = '-';
    }
    while (n > 0) {
        text[used++] = reversed[--n];
    }
    text[used] = '\0';
    return used;
}

/* Integers are written without an exponent (50, not 5e+01). Up to six decimals need no search: when
 * value 10^k is an integer, that integer divided by 10^k is the double nearest to the decimal, and
 * fewer decimals would be another double. 0: not such a value. */
static size_t print_short(double value, char text[AT_REAL_TEXT])
{
    double size = fabs(value), power = 1;
    if (size < PLAIN_INTEGER && size == floor(size)) {
        return print_decimal(text, signbit(value) != 0, (uint64_t)size, 0);
    }
    for (int k = 1; k <= 6 && size >= 1e-4 && size < 1e6; k++) {
        double whole = nearbyint(size * (power *= 10));
        if (whole / power == size) {
            return print_decimal(text, value < 0, (uint64_t)whole, k);
        }
    }
    return 0;
}

size_t at_real_print(double value, char text[AT_REAL_TEXT])
{
    char tried[AT_REAL_TEXT] = "nan"; /* never "-nan" */
    size_t length = print_short(value, text);
    if (length > 0) {
        return length;
    }
    /* %g drops trailing zeros, and 15 digits of a normal number never miss a shorter form. */
    for (int digits = fabs(value) < DBL_MIN ? 1 : 15; digits <= 17 && !isnan(value); digits++) {
        (void)snprintf(tried, sizeof tried, "%.*g", digits, value);
        if (isinf(value) || strtod(tried, NULL) == value) {
            break;
        }
    }
    memcpy(text, tried, sizeof tried);
    return strlen(tried);
}
