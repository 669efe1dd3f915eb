// Where Apple's systems have a function, in the attributes that clang checks. The headers of this folder are all that a C file of the package
// sees in the check: what they do not declare, it does not call.
#pragma once

#define RT_PROHIBITED(platform) __attribute__((availability(platform, unavailable)))
/// As __TVOS_PROHIBITED and __WATCHOS_PROHIBITED of <Availability.h>.
#define RT_NOT_ON_TV_OR_WATCH RT_PROHIBITED(tvos) RT_PROHIBITED(watchos)
#define RT_SINCE(macos_version, ios_version, watchos_version, tvos_version) \
    __attribute__((availability(macos, introduced = macos_version))) __attribute__((availability(ios, introduced = ios_version))) \
    __attribute__((availability(watchos, introduced = watchos_version))) __attribute__((availability(tvos, introduced = tvos_version)))
