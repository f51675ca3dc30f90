# SPDX-License-Identifier: MIT
# Run by cpack. Without dpkg-shlibdeps cpack would make a package that depends on no library, and say so in passing.
foreach(tool IN ITEMS dpkg-shlibdeps file)
  find_program(path_of_${tool} ${tool})
  if(NOT path_of_${tool})
    message(FATAL_ERROR "${tool} is missing, and the package's dependencies cannot be found without it; "
      "install it: apt-get install dpkg-dev file")
  endif()
endforeach()
