// swift-tools-version: 6.1
// The fuzzers of `make fuzz`, without GRDB. All that they need of other modules is linked into Sources/, because a sanitizer is a flag of the whole build.
import PackageDescription

let package = Package(
    name: "Fuzz",
    platforms: [.macOS(.v15)],
    products: [.executable(name: "roundtable-fuzz", targets: ["roundtable-fuzz"])],
    targets: [
        .target(name: "CRoundtableShims"),
        .target(name: "RoundtableKernel", dependencies: ["CRoundtableShims"], exclude: ["PrivacyInfo.xcprivacy"]),
        .target(name: "RoundtableFiles", dependencies: ["CRoundtableShims", "RoundtableKernel"]),
        .executableTarget(
            name: "roundtable-fuzz",
            dependencies: ["CRoundtableShims", "RoundtableKernel", "RoundtableFiles"]
        ),
    ],
    swiftLanguageModes: [.v6]
)
