// swift-tools-version: 6.1
import PackageDescription

// A package of its own, so that nobody who uses Roundtable fetches what only the benchmarks need.
let package = Package(
    name: "RoundtableBenchmarks",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "Roundtable", path: ".."),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
        .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", from: "0.1.0"),
    ],
    targets: [
        .target(name: "CBenchmarkShims"),
        // Programs whose size, memory and start-up time are compared.
        .target(name: "CFootprint"),
        .executableTarget(name: "footprint-nothing", dependencies: ["CFootprint"]),
        .executableTarget(
            name: "footprint-files",
            dependencies: ["CFootprint", .product(name: "RoundtableFiles", package: "Roundtable")]
        ),
        .executableTarget(
            name: "footprint-roundtable",
            dependencies: ["CFootprint", .product(name: "Roundtable", package: "Roundtable")]
        ),
        .executableTarget(
            name: "footprint-grdb",
            dependencies: ["CFootprint", .product(name: "GRDB", package: "GRDB.swift")]
        ),
        .executableTarget(
            name: "operations",
            dependencies: [
                "CBenchmarkShims",
                .product(name: "Roundtable", package: "Roundtable"),
                .product(name: "GRDB", package: "GRDB.swift"),
            ]
        ),
        .executableTarget(
            name: "roundtable-bench",
            dependencies: [
                "CBenchmarkShims",
                .product(name: "Roundtable", package: "Roundtable"),
                .product(name: "RoundtableFiles", package: "Roundtable"),
                .product(name: "RoundtableJobs", package: "Roundtable"),
                .product(name: "RoundtableTestKit", package: "Roundtable"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Histogram", package: "hdrhistogram-swift"),
                // What the tool costs is measured, too.
                .product(name: "roundtable", package: "Roundtable"),
            ]
        ),
    ],
    swiftLanguageModes: [.v6]
)
