# libattest_cudnn.so: cuDNN's frontend behind a C ABI, in a shared object of its own, so that touching
# harness/ never compiles the frontend again. Built where cudnn.h and the frontend's headers are.
target_sources(attest_objects PRIVATE kernels/cudnn_audit.c
    kernels/cudnn_audit_report.c kernels/cudnn_diff.c kernels/cudnn_find.c kernels/cudnn_load.c kernels/cudnn_pool.c
    kernels/cudnn_record.c kernels/cudnn_select.c kernels/cudnn_spec.c kernels/driver.c)
# Where `make cudnn-library` puts other versions.
set_source_files_properties(kernels/cudnn_find.c TARGET_DIRECTORY attest_objects PROPERTIES
    COMPILE_DEFINITIONS AT_CUDNN_LIBRARIES="${PROJECT_SOURCE_DIR}/.cache/cudnn")
set(AT_CUDNN AUTO CACHE STRING "Build the cuDNN part: AUTO (where its headers are), ON, OFF")
set(AT_CUDNN_FRONTEND 1.32.0 CACHE STRING "Version of nvidia-cudnn-frontend (PyPI) to build with")
find_path(AT_CUDNN_INCLUDE cudnn.h HINTS $ENV{CUDA_HOME}/include /usr/local/cuda/include)
set(at_frontend ${PROJECT_SOURCE_DIR}/.cache/cudnn-frontend-${AT_CUDNN_FRONTEND}/include)
if(AT_CUDNN STREQUAL OFF)
    set(at_cudnn_missing "AT_CUDNN is OFF")
elseif(NOT AT_CUDNN_INCLUDE)
    set(at_cudnn_missing "no cudnn.h (CUDA_HOME, /usr/local/cuda/include)")
elseif(NOT EXISTS ${at_frontend}/cudnn_frontend.h)
    set(at_cudnn_missing "no frontend ${AT_CUDNN_FRONTEND} in .cache; `make cudnn-frontend` fetches it")
endif()
if(at_cudnn_missing)
    if(AT_CUDNN STREQUAL ON)
        message(FATAL_ERROR "the cuDNN part cannot be built: ${at_cudnn_missing}")
    endif()
    message(STATUS "the cuDNN part is left out: ${at_cudnn_missing}")
    return()
endif()

add_library(attest_cudnn MODULE kernels/cudnn.cpp)
target_include_directories(attest_cudnn PRIVATE ${PROJECT_SOURCE_DIR})
target_include_directories(attest_cudnn SYSTEM PRIVATE ${at_frontend} ${AT_CUDNN_INCLUDE})
target_compile_definitions(attest_cudnn PRIVATE NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
    CUDNN_FRONTEND_SKIP_JSON_LIB)
target_compile_options(attest_cudnn PRIVATE -Wall -Wextra $<$<BOOL:${AT_WERROR}>:-Werror> -O1 -g0
    -fvisibility=hidden)
target_link_libraries(attest_cudnn PRIVATE ${CMAKE_DL_LIBS})
if(AT_SANITIZE) # vptr and function need a C++ runtime that C programs do not bring
    target_compile_options(attest_cudnn PRIVATE -fsanitize=${AT_SANITIZE}
        -fno-sanitize=vptr,function -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
endif()
set_target_properties(attest_cudnn PROPERTIES PREFIX lib OUTPUT_NAME attest_cudnn)

# The stand-in for the driver goes to a folder of its own: only the offline child looks there.
add_library(attest_driver_standin SHARED kernels/driver_standin.c)
target_compile_definitions(attest_driver_standin PRIVATE _GNU_SOURCE)
target_compile_options(attest_driver_standin PRIVATE -Wall -Wextra -fvisibility=hidden)
target_link_libraries(attest_driver_standin PRIVATE ${CMAKE_DL_LIBS})
set_target_properties(attest_driver_standin PROPERTIES OUTPUT_NAME cuda VERSION 1 SOVERSION 1
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/attest-standin)
add_dependencies(attest attest_cudnn attest_driver_standin)
install(TARGETS attest_cudnn LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS attest_driver_standin LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/attest-standin)

# The backend cudnn.offline, a plugin: only a worker that is asked for it loads cuDNN.
add_library(attest_cudnn_offline MODULE kernels/cudnn_offline.c)
target_link_libraries(attest_cudnn_offline PRIVATE attest_flags attest_lib)
set_target_properties(attest_cudnn_offline PROPERTIES OUTPUT_NAME attest_cudnn_offline)
add_dependencies(attest attest_cudnn_offline)
install(TARGETS attest_cudnn_offline LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})

# What NVRTC says of a kernel that does not compile: LD_AUDIT=build/libattest_nvrtc_log.so
add_library(attest_nvrtc_log MODULE kernels/nvrtc_log.c)
target_compile_definitions(attest_nvrtc_log PRIVATE _GNU_SOURCE)
target_link_libraries(attest_nvrtc_log PRIVATE attest_flags)
target_compile_options(attest_nvrtc_log PRIVATE -fvisibility=hidden)
add_dependencies(attest attest_nvrtc_log)
install(TARGETS attest_nvrtc_log LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
