# CPack runs this when the files of each package are in place: Debian requires this file in every
# package, under the package's name.
foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(folder ${CPACK_TEMPORARY_DIRECTORY}/${component}/usr/share/doc/${package})
  configure_file(${CMAKE_CURRENT_LIST_DIR}/copyright ${folder}/copyright NO_SOURCE_PERMISSIONS
                 COPYONLY)
endforeach()
