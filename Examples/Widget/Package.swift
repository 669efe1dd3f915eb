// swift-tools-version: 6.1
import PackageDescription

// An app with a database, and a widget that never opens it. See README.md.
let package = Package(
    name: "WidgetExample",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "Roundtable", path: "../.."),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
    ],
    targets: [
        // What both programs know: values and commands in files.
        .target(name: "Journal", dependencies: [.product(name: "RoundtableFiles", package: "Roundtable")]),
        .executableTarget(name: "widget", dependencies: ["Journal"]),
        .executableTarget(
            name: "app",
            dependencies: [
                "Journal",
                .product(name: "Roundtable", package: "Roundtable"),
                .product(name: "GRDB", package: "GRDB.swift"),
            ]
        ),
    ],
    swiftLanguageModes: [.v6]
)
