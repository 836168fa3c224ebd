# cmake --install: program, man page, library shared and static, headers, pkg-config file, CMake package. tests/meta/install.sh
# installs into an empty folder and builds the examples against it.
include(CMakePackageConfigHelpers)

install(TARGETS qkv_shared EXPORT qkvTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS qkv_static EXPORT qkvStaticTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_SOURCE_DIR}/include/qkv.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/qkv DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
if(TARGET qkv)
  install(TARGETS qkv RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/qkv)
install(EXPORT qkvTargets NAMESPACE qkv:: DESTINATION ${package_dir})
install(EXPORT qkvStaticTargets NAMESPACE qkv:: DESTINATION ${package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/qkvConfig.cmake.in ${PROJECT_BINARY_DIR}/qkvConfig.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/qkvConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/qkvConfig.cmake ${PROJECT_BINARY_DIR}/qkvConfigVersion.cmake DESTINATION ${package_dir})

# The .pc file finds its prefix from where it lies, so that an installed tree may be moved.
# utf8proc is named by its library and not in Requires.private: pkg-config would hand its compile flags to our users.
set(pc_libs_private -lm)
foreach(name ${UTF8PROC_LIBRARIES})
  string(PREPEND pc_libs_private "-l${name} ")
endforeach()
set(dirs ${UTF8PROC_LIBRARY_DIRS})
list(REMOVE_ITEM dirs ${CMAKE_C_IMPLICIT_LINK_DIRECTORIES} "")
foreach(dir ${dirs})
  string(PREPEND pc_libs_private "-L${dir} ")
endforeach()
foreach(name ${QKV_LIBPTHREAD})
  string(APPEND pc_libs_private " -l${name}")
endforeach()
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR} OR IS_ABSOLUTE ${CMAKE_INSTALL_INCLUDEDIR})
  set(pc_prefix ${CMAKE_INSTALL_PREFIX})
  set(pc_libdir ${CMAKE_INSTALL_FULL_LIBDIR})
  set(pc_includedir ${CMAKE_INSTALL_FULL_INCLUDEDIR})
else()
  file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" up ${up})
  set(pc_prefix "\${pcfiledir}/${up}")
  set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
  set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/qkv.pc.in ${PROJECT_BINARY_DIR}/qkv.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/qkv.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
