// swift-tools-version: 6.2
import PackageDescription

// A server that accepts mails, workers that send them, and a program that cleans up every night. See README.md.
let package = Package(
    name: "ServerExample",
    platforms: [.macOS(.v15)],
    dependencies: [
        // The trait is for RoundtableService.
        .package(name: "Roundtable", path: "../..", traits: ["Service"]),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        // Its traits are left out, because nothing here uses them, and they make the first build longer.
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1", traits: []),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
    ],
    targets: [
        // What all programs know: the schema with its records, the queue, the settings.
        .target(
            name: "MailShared",
            dependencies: [
                "PersistedValues",
                .product(name: "Roundtable", package: "Roundtable"),
                .product(name: "RoundtableJobs", package: "Roundtable"),
                .product(name: "GRDB", package: "GRDB.swift"),
            ]
        ),
        // Hummingbird's persist framework on a shared database, and its table. They know nothing of mails.
        .target(name: "PersistedValues", dependencies: [.product(name: "GRDB", package: "GRDB.swift")]),
        .target(
            name: "SharedPersist",
            dependencies: [
                "PersistedValues",
                .product(name: "Roundtable", package: "Roundtable"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "Logging", package: "swift-log"),
            ]
        ),
        .testTarget(name: "SharedPersistTests", dependencies: ["SharedPersist", "PersistedValues"]),
        .executableTarget(
            name: "server",
            dependencies: [
                "MailShared",
                "SharedPersist",
                .product(name: "RoundtableService", package: "Roundtable"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Metrics", package: "swift-metrics"),
            ]
        ),
        .executableTarget(
            name: "worker",
            dependencies: [
                "MailShared",
                .product(name: "RoundtableService", package: "Roundtable"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "Logging", package: "swift-log"),
            ]
        ),
        .executableTarget(name: "nightly", dependencies: ["MailShared"]),
    ],
    swiftLanguageModes: [.v6]
)
