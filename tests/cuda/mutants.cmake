# SPDX-License-Identifier: Apache-2.0
# Broken kernels, each of which an emulated test must find. All of them: make cuda-mutants. Here: that all still apply, and some.
set(mutants Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/mutants.py ${PROJECT_SOURCE_DIR})
set(mutants_work ${CMAKE_CURRENT_BINARY_DIR}/mutants)
add_test(NAME cuda.mutants_apply COMMAND ${mutants} --check)
add_test(NAME cuda.mutants_some
         COMMAND ${mutants} --build ${PROJECT_BINARY_DIR} --work ${mutants_work}/some --share 3 --only "arrivals" "wrong parity" "does not transpose" "zero fill" "peer loads"
                            "merge: one arrival too late" "mla: V is not rescaled")
folio_expect(cuda.mutants_survivors_are_found
             COMMAND ${mutants} --work ${mutants_work}/survivor --table ${CMAKE_CURRENT_SOURCE_DIR}/mutant_survivor.py STATUS 1
             SAYS "the same in other words:  SURVIVES.*no C..:  .*does not compile.*elsewhere:  no source.*3 mutants, 3 survive")
set_tests_properties(cuda.mutants_some cuda.mutants_survivors_are_found PROPERTIES LABELS mutants TIMEOUT 1800 COST 10
                     ENVIRONMENT CXX=${CMAKE_CXX_COMPILER})
