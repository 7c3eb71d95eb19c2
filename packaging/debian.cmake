# CPack runs this when the files of each package are in place: adds what Debian's policy requires of
# every package, under the package's name, and compresses the man pages.
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # Or SOURCE_DATE_EPOCH, if that is set.
foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(share ${CPACK_TEMPORARY_DIRECTORY}/${component}/usr/share)
  set(changelog ${share}/doc/${package}/changelog)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/copyright ${share}/doc/${package}/copyright
                 NO_SOURCE_PERMISSIONS COPYONLY)
  file(WRITE ${changelog} "sluice (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium\n\n"
       "  * What has changed is in CHANGELOG.md, in the documentation of the package sluice.\n\n"
       " -- ${CPACK_PACKAGE_CONTACT} <>  ${date}\n")
  file(GLOB pages ${share}/man/man*/*)
  # -n: without the time, so that the same files make the same package.
  execute_process(COMMAND gzip -9 -n -f ${changelog} ${pages} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
