# Installs the build into a fresh prefix and proves that it stands alone: the tool runs and finds its
# corpus, and a program compiled against the installed headers links and parses a case.
set(prefix ${BUILD}/install-test)
file(REMOVE_RECURSE ${prefix})
function(run)
    execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out)
    if(NOT result EQUAL 0)
        message(FATAL_ERROR "${ARGV}: ${result}\n${out}")
    endif()
    set(out "${out}" PARENT_SCOPE)
endfunction()
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
file(WRITE ${prefix}/user.c [[
#include <harness/backend.h>
#include <stdio.h>
int main(void)
{
    at_case c;
    at_error err = {""};
    char id[AT_ID_TEXT];
    if (at_abi() != AT_ABI || at_case_parse(&c, "hq=8:hkv=2:mask=causal", &err) != AT_OK) {
        return 1;
    }
    at_case_id(&c, id);
    puts(id);
    return 0;
}
]])
set(ENV{PKG_CONFIG_PATH} ${prefix}/${LIBDIR}/pkgconfig)
run(pkg-config --cflags --libs attest)
string(STRIP "${out}" flags)
separate_arguments(flags)
run(${CC} -std=c17 ${prefix}/user.c -o ${prefix}/user ${flags} -Wl,-rpath,${prefix}/${LIBDIR})
run(${prefix}/user)
set(ENV{ATTEST_CORPUS} "")
run(${prefix}/bin/attest list smoke --max-cases 1)
file(REMOVE_RECURSE ${prefix})
