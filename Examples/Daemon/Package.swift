// swift-tools-version: 6.1
import PackageDescription

// A daemon that writes, and a command-line tool that reads what it wrote and changes its settings. See README.md.
let package = Package(
    name: "DaemonExample",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "Roundtable", path: "../.."),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
    ],
    targets: [
        // What both programs know: the schema and its records.
        .target(
            name: "MeterShared",
            dependencies: [
                .product(name: "Roundtable", package: "Roundtable"),
                .product(name: "GRDB", package: "GRDB.swift"),
            ]
        ),
        .executableTarget(name: "meterd", dependencies: ["MeterShared"]),
        .executableTarget(
            name: "meter",
            dependencies: ["MeterShared", .product(name: "ArgumentParser", package: "swift-argument-parser")]
        ),
    ],
    swiftLanguageModes: [.v6]
)
