// swift-tools-version: 6.2
import PackageDescription

// A program that follows reminders with SQLiteData, in as many processes as one likes, and adds some. See README.md.
let package = Package(
    name: "SQLiteDataExample",
    // For `Observations`.
    platforms: [.macOS("26.0")],
    dependencies: [
        .package(name: "Roundtable", path: "../.."),
        .package(url: "https://github.com/pointfreeco/sqlite-data", from: "1.11.0"),
    ],
    targets: [
        // What all programs know: the table, and how the database is opened.
        .target(
            name: "RemindersShared",
            dependencies: [
                .product(name: "Roundtable", package: "Roundtable"),
                .product(name: "SQLiteData", package: "sqlite-data"),
            ]
        ),
        .executableTarget(
            name: "reminders",
            dependencies: ["RemindersShared", .product(name: "SQLiteData", package: "sqlite-data")]
        ),
    ],
    swiftLanguageModes: [.v6]
)
