# The program: public headers only. Its manual page is printed by the program itself, from the tables it reads its options by.
file(GLOB cli_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cli/*.c)
if(cli_sources)
  add_executable(qkv ${cli_sources})
  target_link_libraries(qkv PRIVATE qkv_static PkgConfig::JANSSON ZLIB::ZLIB ${QKV_LIBM})
  target_compile_options(qkv PRIVATE $<$<CONFIG:Release>:-O2>)

  if(NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR)
    add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/qkv.1 DEPENDS qkv COMMENT "Manual page qkv.1"
      COMMAND ${CMAKE_COMMAND} -E rm -f ${PROJECT_BINARY_DIR}/qkv.1
      COMMAND qkv help --man > ${PROJECT_BINARY_DIR}/qkv.1)
    add_custom_target(qkv_man ALL DEPENDS ${PROJECT_BINARY_DIR}/qkv.1)
    install(FILES ${PROJECT_BINARY_DIR}/qkv.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  endif()
endif()
