// swift-tools-version: 6.1
import PackageDescription

// A test of database code that knows nothing of Roundtable. See README.md.
let package = Package(
    name: "TestKitExample",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "Roundtable", path: "../.."),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
    ],
    targets: [
        // The code under test.
        .target(name: "Notebook", dependencies: [.product(name: "GRDB", package: "GRDB.swift")]),
        .executableTarget(
            name: "check-notebook",
            dependencies: ["Notebook", .product(name: "RoundtableTestKit", package: "Roundtable")]
        ),
    ],
    swiftLanguageModes: [.v6]
)
