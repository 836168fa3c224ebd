# libqkv, shared and static, from the same objects; what is not marked QKV_API is hidden (tests/meta/symbols.txt pins the rest).

add_library(qkv_static STATIC $<TARGET_OBJECTS:qkv_base>)
add_library(qkv_shared SHARED $<TARGET_OBJECTS:qkv_base>)
# Before 1.0 a minor version may change the binary interface.
set_target_properties(qkv_shared PROPERTIES OUTPUT_NAME qkv EXPORT_NAME qkv VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set_target_properties(qkv_static PROPERTIES OUTPUT_NAME qkv EXPORT_NAME static)
add_library(qkv::qkv ALIAS qkv_shared)
add_library(qkv::static ALIAS qkv_static)
foreach(lib qkv_static qkv_shared)
  foreach(floor kernels text formats data ops layers models train report tasks bench compare api)
    get_target_property(type qkv_${floor} TYPE)
    if(NOT type STREQUAL INTERFACE_LIBRARY)
      target_sources(${lib} PRIVATE $<TARGET_OBJECTS:qkv_${floor}>)
    endif()
  endforeach()
  foreach(isa ${QKV_ISAS})
    target_sources(${lib} PRIVATE $<TARGET_OBJECTS:qkv_isa_${isa}>)
  endforeach()
  target_include_directories(${lib} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${lib} PRIVATE PkgConfig::JANSSON PkgConfig::UTF8PROC ZLIB::ZLIB ${QKV_LIBM} ${QKV_LIBPTHREAD})
endforeach()
