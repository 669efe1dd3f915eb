// swift-tools-version: 6.1
// GRDB's own tests on shared databases: scripts/test-grdb.sh copies them to Tests/, with what Additions/ has, and patches them.
import PackageDescription

let package = Package(
    name: "GRDBSuite",
    platforms: [.iOS(.v18), .macOS(.v15), .visionOS(.v2)],
    dependencies: [
        .package(name: "Roundtable", path: "../.."),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
    ],
    targets: [
        .testTarget(
            name: "GRDBSuite",
            dependencies: [
                .product(name: "Roundtable", package: "Roundtable"), .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
            ],
            path: "Tests",
            resources: [
                .copy("Betty.jpeg"), .copy("InflectionsTests.json"), .copy("Issue1383.sqlite"), .copy("db.SQLCipher3"),
            ],
            swiftSettings: [
                .define("SQLITE_ENABLE_FTS5"), .define("SQLITE_ENABLE_SNAPSHOT"), .define("SQLITE_DISABLE_SNAPSHOT"),
                .swiftLanguageMode(.v5), .enableUpcomingFeature("InferSendableFromCaptures"),
                .enableUpcomingFeature("GlobalActorIsolatedTypesUsability"),
                // The tests are not ours to mend.
                .unsafeFlags(["-Xfrontend", "-suppress-warnings"]),
            ]
        )
    ]
)
