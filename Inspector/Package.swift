// swift-tools-version: 6.2
import PackageDescription

// A page that shows a database live. It knows the tool's `record` by its lines, and nothing else of Roundtable: see docs/INSPECTOR.md.
let package = Package(
    name: "Inspector",
    platforms: [.macOS(.v15)],
    products: [.executable(name: "roundtable-inspector", targets: ["roundtable-inspector"])],
    dependencies: [
        // Its traits are left out, because nothing here uses them, and they make the first build longer.
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1", traits: []),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.0"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
    ],
    targets: [
        .executableTarget(
            name: "roundtable-inspector",
            dependencies: [
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
            ],
            // In the program itself, so that it is one file that can be copied.
            resources: [
                .embedInCode("Page/index.html"), .embedInCode("Page/style.css"), .embedInCode("Page/main.js"),
                .embedInCode("Page/store.js"), .embedInCode("Page/chart.js"), .embedInCode("Page/panels.js"),
                .embedInCode("Page/parts.js"), .embedInCode("Page/keys.js"),
            ]
        )
    ],
    swiftLanguageModes: [.v6]
)
