# The examples, against the shared library: they see what a user of the installed library sees.
foreach(name attention classify train)
  add_executable(example.${name} ${PROJECT_SOURCE_DIR}/examples/${name}.c)
  target_link_libraries(example.${name} PRIVATE qkv::qkv ${QKV_LIBM})
  set_target_properties(example.${name} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/examples)
endforeach()
