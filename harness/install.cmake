# What `cmake --install` puts where: the tool, libattest, its public headers, the corpus, pkg-config.
set(at_public_headers harness/status.h harness/json.h harness/backend.h harness/case/case.h
    harness/problem/dtype.h harness/problem/tensor.h harness/problem/arena.h
    harness/problem/problem.h harness/judge/verdict.h harness/judge/judge.h
    harness/run/foreign.h reference/reference.h)
foreach(at_header IN LISTS at_public_headers)
    get_filename_component(at_folder ${at_header} DIRECTORY)
    install(FILES ${at_header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/attest/${at_folder})
endforeach()
install(TARGETS attest RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS attest_lib LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY corpus/ DESTINATION ${CMAKE_INSTALL_DATADIR}/attest/corpus)
configure_file(harness/attest.pc.in attest.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/attest.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(DIRECTORY kernels/python/te_selector DESTINATION ${CMAKE_INSTALL_DATADIR}/attest/python
    FILES_MATCHING PATTERN "*.py")
install(TARGETS te_fused_half RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/attest)
