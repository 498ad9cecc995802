# Every header compiles alone as C17 and as C++20 (label header).
file(GLOB_RECURSE at_headers RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/harness/*.h
    ${PROJECT_SOURCE_DIR}/reference/*.h ${PROJECT_SOURCE_DIR}/kernels/*.h)
foreach(at_header IN LISTS at_headers)
    string(REPLACE "/" "." at_name ${at_header})
    add_test(NAME header.${at_name}.c COMMAND ${CMAKE_C_COMPILER} -std=c17 -D_XOPEN_SOURCE=700
        -D_DEFAULT_SOURCE -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I${PROJECT_SOURCE_DIR}
        -x c ${PROJECT_SOURCE_DIR}/${at_header})
    add_test(NAME header.${at_name}.cxx COMMAND ${CMAKE_CXX_COMPILER} -std=c++20 -Wall -Wextra
        -Wpedantic -Werror -fsyntax-only -I${PROJECT_SOURCE_DIR} -x c++
        ${PROJECT_SOURCE_DIR}/${at_header})
    set_tests_properties(header.${at_name}.c header.${at_name}.cxx PROPERTIES LABELS header)
endforeach()
