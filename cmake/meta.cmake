# Tests about the tree and the build themselves (tests/meta), of the examples (tests/examples) and of layers that others trained: shell scripts.
#
# qkv_script_test(name script): runs the script with the tools and folders of this build in its environment; exit code 77 means skipped.
function(qkv_script_test name script)
  string(REGEX REPLACE "/.*$" "" label ${name})
  add_test(NAME ${name} COMMAND sh ${script})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600 LABELS ${label}
    ENVIRONMENT "QKV_SOURCE=${PROJECT_SOURCE_DIR};QKV_BUILD=${PROJECT_BINARY_DIR};CC=${CMAKE_C_COMPILER};CXX=${QKV_CXX};NM=${CMAKE_NM};CMAKE=${CMAKE_COMMAND};LC_ALL=C;LIBDIR=${CMAKE_INSTALL_LIBDIR}")
endfunction()

# A C++ compiler is wanted by one test of the headers alone; the project itself is C.
find_program(QKV_CXX NAMES c++ g++ clang++)
mark_as_advanced(QKV_CXX)
if(NOT QKV_CXX)
  set(QKV_CXX none)
endif()
string(FIND "${CMAKE_C_FLAGS}" "-fsanitize" sanitized)

foreach(name arrows hygiene sizes headers)
  qkv_script_test(meta/${name} ${PROJECT_SOURCE_DIR}/tests/meta/${name}.sh)
endforeach()
if(NOT QKV_DOUBLE AND sanitized EQUAL -1)
  # What the sanitizers add to objects is not ours.
  foreach(name flags globals symbols isa_objects)
    qkv_script_test(meta/${name} ${PROJECT_SOURCE_DIR}/tests/meta/${name}.sh)
  endforeach()
  if(QKV_EXAMPLES AND TARGET qkv)
    qkv_script_test(meta/install ${PROJECT_SOURCE_DIR}/tests/meta/install.sh)
  endif()
endif()
if(NOT QKV_DOUBLE)
  qkv_script_test(parity/trained ${PROJECT_SOURCE_DIR}/tests/parity/trained.sh)
endif()
if(NOT QKV_DOUBLE AND QKV_EXAMPLES)
  qkv_script_test(examples/attention ${PROJECT_SOURCE_DIR}/tests/examples/attention.sh)
  if(TARGET qkv)
    qkv_script_test(examples/classify ${PROJECT_SOURCE_DIR}/tests/examples/classify.sh)
    qkv_script_test(examples/train ${PROJECT_SOURCE_DIR}/tests/examples/train.sh)
  endif()
endif()

# Under the thread sanitizer a planted race must be found, and the synchronisation that qkv_par gives must be seen: else the
# other tests would prove nothing there.
if(CMAKE_C_FLAGS MATCHES "-fsanitize=thread" AND QKV_OPENMP)
  add_executable(test.meta.race ${PROJECT_SOURCE_DIR}/tests/meta/race.c)
  qkv_use_floors(test.meta.race base)
  add_test(NAME meta/race_none COMMAND test.meta.race)
  add_test(NAME meta/race_planted COMMAND test.meta.race planted)
  set_tests_properties(meta/race_planted PROPERTIES PASS_REGULAR_EXPRESSION "ThreadSanitizer: data race")
  set_tests_properties(meta/race_none meta/race_planted PROPERTIES LABELS meta
    ENVIRONMENT "TSAN_OPTIONS=ignore_noninstrumented_modules=1")
endif()
