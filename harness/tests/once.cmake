# The frontend is compiled in one place, and no file of harness/ is behind it: touching those never
# compiles it again. BUILD: a Ninja build folder; NINJA: the program.
execute_process(COMMAND ${NINJA} -C ${BUILD} -t deps CMakeFiles/attest_cudnn.dir/kernels/cudnn.cpp.o
    OUTPUT_VARIABLE deps RESULT_VARIABLE failed)
if(failed OR NOT deps MATCHES "kernels/cudnn\\.h" OR NOT deps MATCHES "cudnn_frontend\\.h")
    message(FATAL_ERROR "what the frontend was compiled from is not known:\n${deps}")
endif()
if(deps MATCHES "[^ \n]*harness/[^ \n]*")
    message(FATAL_ERROR "the frontend is compiled again when ${CMAKE_MATCH_0} is touched")
endif()
file(READ ${BUILD}/compile_commands.json commands)
string(REGEX MATCHALL "\"file\": \"[^\"]*cudnn\\.cpp\"" places "${commands}")
list(LENGTH places count)
if(NOT count EQUAL 1)
    message(FATAL_ERROR "kernels/cudnn.cpp is compiled in ${count} places, once is enough")
endif()
