// swift-tools-version: 6.1
import PackageDescription

// What the app, the widget and the share extension of Xcode/ share; and programs that play the three on Linux. See README.md.
let package = Package(
    name: "AppExample",
    platforms: [.iOS(.v18), .macOS(.v15)],
    products: [
        .library(name: "ReadingList", targets: ["ReadingList"]),
        .library(name: "ReadingListStore", targets: ["ReadingListStore"]),
    ],
    dependencies: [
        .package(name: "Roundtable", path: "../.."),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
    ],
    targets: [
        // For all three: commands and snapshots in files. Neither GRDB nor SQLite.
        .target(name: "ReadingList", dependencies: [.product(name: "RoundtableFiles", package: "Roundtable")]),
        // For the app alone: the database.
        .target(
            name: "ReadingListStore",
            dependencies: [
                "ReadingList",
                .product(name: "Roundtable", package: "Roundtable"),
                .product(name: "GRDB", package: "GRDB.swift"),
            ]
        ),
        // The three, as programs for a terminal.
        .executableTarget(
            name: "app",
            dependencies: ["ReadingListStore", .product(name: "RoundtableTestKit", package: "Roundtable")]
        ),
        .executableTarget(name: "widget", dependencies: ["ReadingList"]),
        .executableTarget(name: "share", dependencies: ["ReadingList"]),
        .testTarget(
            name: "ReadingListTests",
            dependencies: [
                "ReadingList", "ReadingListStore", "app", "widget", "share",
                .product(name: "RoundtableTestKit", package: "Roundtable"),
            ]
        ),
    ],
    swiftLanguageModes: [.v6]
)
