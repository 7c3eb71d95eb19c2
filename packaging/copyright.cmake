# CPack runs this when the files of each package are in place: Debian requires the license in every
# package, under the package's name.
foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(folder ${CPACK_TEMPORARY_DIRECTORY}/${component}/usr/share/doc/${package})
  file(REMOVE ${folder}/LICENSE)
  configure_file(${CPACK_RESOURCE_FILE_LICENSE} ${folder}/copyright NO_SOURCE_PERMISSIONS
                 COPYONLY)
endforeach()
