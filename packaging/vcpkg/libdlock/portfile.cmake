# An overlay port: the sources are those around it.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

vcpkg_configure_meson(SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS -Dzookeeper=disabled -Dcli=disabled -Dman=disabled -Dredis=enabled -Dtls=enabled -Detcd=enabled
    -Dpostgres=enabled)
vcpkg_install_meson()
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
