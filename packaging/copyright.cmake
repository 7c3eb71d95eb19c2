# CPack runs this when the files of each package are in place: Debian requires the license in every
# package, under the package's name.
foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(folder ${CPACK_TEMPORARY_DIRECTORY}/${component}/usr/share/doc/${package})
  configure_file(${CPACK_RESOURCE_FILE_LICENSE} ${folder}/copyright NO_SOURCE_PERMISSIONS
                 COPYONLY)
  if(EXISTS ${folder}/LICENSE)  # README.md links to it; Debian wants one copy.
    file(REMOVE ${folder}/LICENSE)
    file(CREATE_LINK copyright ${folder}/LICENSE SYMBOLIC)
  endif()
endforeach()
