// swift-tools-version: 6.1
import PackageDescription

let sql: [Target.Dependency] = [
    .product(name: "GRDB", package: "GRDB.swift"), .product(name: "GRDBSQLite", package: "GRDB.swift"),
]

// What servers use: fetched only by those who ask for the trait.
let service = TargetDependencyCondition.when(traits: ["Service"])

// Compiled when a test begins, and preloaded into peers alone, on Linux. Xcode cannot embed files in code.
let preloaded = ["Sweep/faults.c", "Apple/device.c"]
// Apple's alone, because a resource brings Foundation.
let privacy = "PrivacyInfo.xcprivacy"
#if os(Linux)
    let (embedded, copied): ([Resource], [Resource]) = (preloaded.map { .embedInCode($0) }, [])
    let attackers: [Resource] = [.embedInCode("Attack/attacker.c")]
#else
    let (embedded, copied): ([Resource], [Resource]) = ([], [.copy(privacy)])
    let attackers: [Resource] = []
#endif

// The tests of one module may open databases with all features, as programs do.
let features = [
    "RoundtableDelivery", "RoundtableDerived", "RoundtableDiagnostics", "RoundtableHistory", "RoundtableRoles",
]
func unitTests(of module: String, and others: [String]) -> Target {
    let names = Set(
        [module, "Roundtable", "RoundtableCore", "RoundtableGate", "RoundtableTestBasics", "RoundtableUnitSupport"]
            + others
    )
    return .testTarget(
        name: module + "Tests",
        dependencies: names.sorted().map { Target.Dependency(stringLiteral: $0) } + sql
    )
}

let package = Package(
    name: "Roundtable",
    platforms: [.iOS(.v18), .macOS(.v15), .visionOS(.v2)],
    products: [
        .library(name: "Roundtable", targets: ["Roundtable"]),
        .library(name: "RoundtableFiles", targets: ["RoundtableFiles"]),
        .library(name: "RoundtableJobs", targets: ["RoundtableJobs"]),
        .library(name: "RoundtableService", targets: ["RoundtableService"]),
        // For programs in other languages: `make loadable` builds it, and names it as SQLite wants.
        .library(name: "RoundtableLoadable", type: .dynamic, targets: ["RoundtableLoadable"]),
        .library(name: "RoundtableTestKit", targets: ["RoundtableTestKit"]),
        .executable(name: "roundtable", targets: ["RoundtableTool"]),
    ],
    traits: [
        .trait(
            name: "Service",
            description:
                "RoundtableService, with swift-log, swift-metrics, swift-distributed-tracing and swift-service-lifecycle."
        )
    ],
    dependencies: [
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
        // Without the trait, SwiftPM fetches none of these.
        .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        .target(name: "CRoundtableShims"),
        .target(
            name: "RoundtableKernel",
            dependencies: ["CRoundtableShims"],
            exclude: copied.isEmpty ? [privacy] : [],
            resources: copied
        ),
        // For programs that never open a database: neither GRDB nor SQLite.
        .target(name: "RoundtableFiles", dependencies: ["CRoundtableShims", "RoundtableKernel"]),
        // The gate that closes before the system freezes the process. It knows no database: neither GRDB nor SQLite.
        .target(name: "RoundtableGate", dependencies: ["RoundtableKernel"]),
        // The core, and one target for each feature: which of them may know of which, the compiler decides.
        .target(
            name: "RoundtableCore",
            dependencies: ["CRoundtableShims", "RoundtableGate", "RoundtableKernel"] + sql
        ),
        .target(name: "RoundtableTables", dependencies: ["RoundtableCore"] + sql),
        .target(name: "RoundtableHistory", dependencies: ["RoundtableCore", "RoundtableTables"] + sql),
        .target(
            name: "RoundtableDerived",
            dependencies: ["RoundtableCore", "RoundtableGate", "RoundtableKernel", "RoundtableTables"] + sql
        ),
        .target(
            name: "RoundtableDelivery",
            dependencies: [
                "CRoundtableShims", "RoundtableCore", "RoundtableFiles", "RoundtableGate", "RoundtableKernel",
            ] + sql
        ),
        .target(
            name: "RoundtableRoles",
            dependencies: ["RoundtableCore", "RoundtableGate", "RoundtableKernel"] + sql
        ),
        .target(
            name: "RoundtableDiagnostics",
            dependencies: [
                "RoundtableCore", "RoundtableDelivery", "RoundtableDerived", "RoundtableFiles", "RoundtableKernel",
                "RoundtableRoles",
            ] + sql
        ),
        // Puts a database together with all features.
        .target(
            name: "Roundtable",
            dependencies: [
                "RoundtableCore", "RoundtableDelivery", "RoundtableDerived", "RoundtableDiagnostics",
                "RoundtableFiles", "RoundtableGate", "RoundtableHistory", "RoundtableRoles",
            ] + sql
        ),
        // A product of its own, so that others do not carry it.
        .target(name: "RoundtableJobs", dependencies: ["RoundtableCore", "RoundtableGate", "RoundtableKernel"] + sql),
        // Its sources need the trait, except for health.
        .target(
            name: "RoundtableService",
            dependencies: [
                "Roundtable", "RoundtableCore", "RoundtableJobs", "RoundtableKernel",
                .product(name: "Logging", package: "swift-log", condition: service),
                .product(name: "CoreMetrics", package: "swift-metrics", condition: service),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: service),
                .product(name: "Tracing", package: "swift-distributed-tracing", condition: service),
            ] + sql
        ),
        // The loadable extension: neither GRDB nor SQLite, because its host has a SQLite of its own.
        .target(name: "CRoundtableLoadable"),
        .target(
            name: "RoundtableLoadable",
            dependencies: ["CRoundtableLoadable", "CRoundtableShims", "RoundtableKernel"]
        ),
        // For programs and tests that start processes: neither GRDB nor SQLite.
        .target(
            name: "RoundtableProcesses",
            dependencies: ["RoundtableKernel"],
            path: "Tool/RoundtableProcesses"
        ),
        // What tests link, those of users too.
        .target(name: "CRoundtableTestShims", path: "Proof/CRoundtableTestShims"),
        .target(
            name: "RoundtableTestKit",
            dependencies: [
                "CRoundtableTestShims", "Roundtable", "RoundtableKernel", "RoundtableProcesses",
                .product(name: "GRDB", package: "GRDB.swift"),
            ],
            path: "Proof/RoundtableTestKit"
        ),
        // What only the tests of this package need. The first three know no database.
        .target(
            name: "CRoundtableTestSupport",
            dependencies: ["CRoundtableShims"],
            path: "Proof/CRoundtableTestSupport"
        ),
        .target(
            name: "RoundtableTrials",
            dependencies: ["CRoundtableTestShims", "RoundtableProcesses"],
            path: "Proof/RoundtableTrials"
        ),
        .target(
            name: "RoundtableTestBasics",
            dependencies: ["RoundtableProcesses"],
            path: "Proof/RoundtableTestBasics"
        ),
        .target(
            name: "CRoundtableCheckpointVFS",
            dependencies: [.product(name: "GRDBSQLite", package: "GRDB.swift")],
            path: "Proof/CRoundtableCheckpointVFS"
        ),
        .target(
            name: "RoundtableTestSupport",
            dependencies: [
                "CRoundtableTestShims", "CRoundtableTestSupport", "Roundtable", "RoundtableKernel", "RoundtableTestKit",
                "RoundtableTrials",
                .product(name: "GRDB", package: "GRDB.swift"),
            ],
            path: "Proof/RoundtableTestSupport",
            exclude: embedded.isEmpty ? preloaded : [],
            resources: embedded
        ),
        .target(
            name: "RoundtableUnitSupport",
            dependencies: [
                "Roundtable", "RoundtableCore", "RoundtableDelivery", "RoundtableFiles", "RoundtableHistory",
                "RoundtableKernel", "RoundtableTestBasics", "RoundtableTestSupport",
            ] + sql,
            path: "Proof/RoundtableUnitSupport"
        ),
        // The command-line tool: what its verbs share, what goes beyond one machine, and the verbs.
        .target(
            name: "RoundtableToolSupport",
            dependencies: [
                "Roundtable", "RoundtableKernel", .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ] + sql,
            path: "Tool/RoundtableToolSupport"
        ),
        .target(
            name: "RoundtableReplication",
            dependencies: [
                "Roundtable", "RoundtableKernel", "RoundtableProcesses", "RoundtableToolSupport",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ] + sql,
            path: "Tool/RoundtableReplication"
        ),
        .executableTarget(
            name: "RoundtableTool",
            dependencies: [
                "Roundtable", "RoundtableJobs", "RoundtableKernel", "RoundtableProcesses", "RoundtableReplication",
                "RoundtableTestKit", "RoundtableToolSupport",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ] + sql,
            path: "Tool/RoundtableTool"
        ),
        .executableTarget(
            name: "roundtable-peer",
            dependencies: [
                "CRoundtableCheckpointVFS", "CRoundtableShims", "CRoundtableTestSupport", "Roundtable",
                "RoundtableKernel",
                "RoundtableTestSupport",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
            ],
            path: "Proof/roundtable-peer"
        ),
        // The campaigns of `make torture`, `make soak` and their like.
        .executableTarget(
            name: "roundtable-torture",
            dependencies: [
                "Roundtable", "RoundtableJobs", "RoundtableKernel", "RoundtableTestSupport",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            path: "Proof/roundtable-torture"
        ),
        // The server of the tests of RoundtableService.
        .executableTarget(
            name: "roundtable-service-peer",
            dependencies: [
                "CRoundtableCheckpointVFS", "CRoundtableTestSupport", "Roundtable", "RoundtableCore", "RoundtableJobs",
                "RoundtableService",
                .product(name: "Logging", package: "swift-log", condition: service),
                .product(name: "CoreMetrics", package: "swift-metrics", condition: service),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: service),
                .product(name: "UnixSignals", package: "swift-service-lifecycle", condition: service),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
            ],
            path: "Proof/roundtable-service-peer"
        ),
        // Models of the protocol's state machines, which tests and `make walk` walk through all their states.
        .target(name: "RoundtableModels", dependencies: ["RoundtableKernel"], path: "Proof/RoundtableModels"),
        .executableTarget(name: "roundtable-walk", dependencies: ["RoundtableModels"], path: "Proof/roundtable-walk"),
        .testTarget(
            name: "RoundtableKernelTests",
            dependencies: [
                "CRoundtableShims", "CRoundtableTestSupport", "RoundtableKernel", "RoundtableModels",
                "RoundtableProcesses", "RoundtableTestBasics", "RoundtableTrials",
            ]
        ),
        .testTarget(
            name: "RoundtableGateTests",
            dependencies: ["RoundtableGate", "RoundtableKernel", "RoundtableTestBasics", "RoundtableTrials"]
        ),
        unitTests(
            of: "RoundtableCore",
            and: ["RoundtableFiles", "RoundtableKernel"] + features
        ),
        unitTests(of: "RoundtableHistory", and: ["RoundtableTables"]),
        unitTests(of: "RoundtableRoles", and: ["RoundtableKernel"]),
        unitTests(of: "RoundtableDerived", and: ["RoundtableTables"] + features),
        unitTests(of: "RoundtableDelivery", and: ["RoundtableFiles", "RoundtableKernel"] + features),
        unitTests(of: "RoundtableDiagnostics", and: ["RoundtableDelivery", "RoundtableFiles", "RoundtableKernel"]),
        .testTarget(
            name: "RoundtableJobsTests",
            dependencies: [
                "Roundtable", "RoundtableJobs", "RoundtableKernel", "RoundtableTestBasics", "RoundtableTestSupport",
            ] + sql
        ),
        .testTarget(
            name: "RoundtableTestKitTests",
            dependencies: [
                "Roundtable", "RoundtableGate", "RoundtableTestKit", "RoundtableTestBasics", "RoundtableTestSupport",
                "roundtable-torture",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
            ]
        ),
        .testTarget(
            name: "RoundtableToolTests",
            dependencies: [
                "RoundtableReplication", "RoundtableTool", "RoundtableToolSupport", "Roundtable", "RoundtableJobs",
                "RoundtableKernel", "RoundtableProcesses", "RoundtableTestBasics", "RoundtableTestSupport",
            ] + sql,
            // Compiled when a campaign begins, and preloaded into the tool alone.
            exclude: attackers.isEmpty ? ["Attack/attacker.c"] : [],
            resources: attackers
        ),
        .testTarget(
            name: "RoundtableProcessTests",
            dependencies: [
                "Roundtable", "RoundtableJobs", "RoundtableKernel", "RoundtableTestBasics", "RoundtableTestSupport",
                "RoundtableReplication", "RoundtableTool", "RoundtableToolSupport",
                "roundtable-peer", "roundtable-torture",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
            ]
        ),
        .testTarget(
            name: "RoundtableServiceTests",
            dependencies: [
                "Roundtable", "RoundtableCore", "RoundtableJobs", "RoundtableService", "RoundtableTestBasics",
                "RoundtableTestSupport",
                "roundtable-service-peer",
                .product(name: "Logging", package: "swift-log", condition: service),
                .product(name: "CoreMetrics", package: "swift-metrics", condition: service),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: service),
                .product(name: "InMemoryTracing", package: "swift-distributed-tracing", condition: service),
                .product(name: "Tracing", package: "swift-distributed-tracing", condition: service),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
            ]
        ),
    ],
    swiftLanguageModes: [.v6]
)

// A file imports the modules whose members it uses, and says `any` where a value is boxed.
for target in package.targets {
    target.swiftSettings = [.enableUpcomingFeature("MemberImportVisibility"), .enableUpcomingFeature("ExistentialAny")]
}

// For platforms that have no processes to start, in an app: the library and its unit tests alone, with what those are built on.
if Context.environment["ROUNDTABLE_LIBRARY_ONLY"] != nil {
    let kept: Set = [
        "CRoundtableShims", "RoundtableKernel", "RoundtableFiles", "RoundtableCore", "RoundtableTables",
        "RoundtableGate", "RoundtableHistory", "RoundtableDerived", "RoundtableDelivery", "RoundtableRoles",
        "RoundtableDiagnostics", "Roundtable", "RoundtableJobs",
        "CRoundtableTestShims", "CRoundtableTestSupport", "RoundtableProcesses",
        "RoundtableTestKit", "RoundtableTrials", "RoundtableTestBasics", "RoundtableTestSupport",
        "RoundtableUnitSupport",
        "RoundtableGateTests", "RoundtableCoreTests", "RoundtableHistoryTests", "RoundtableDerivedTests",
        "RoundtableDeliveryTests", "RoundtableRolesTests",
        "RoundtableDiagnosticsTests",
    ]
    package.targets.removeAll { !kept.contains($0.name) }
    package.products.removeAll { !["Roundtable", "RoundtableFiles", "RoundtableJobs"].contains($0.name) }
}
