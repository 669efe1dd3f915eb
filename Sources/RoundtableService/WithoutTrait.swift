// Without the package trait, these names say why the others are missing.

#if !Service
    /// Needs the package trait `Service`.
    @available(
        *,
        unavailable,
        message: "RoundtableService needs its trait: .package(name or url of Roundtable, traits: [\"Service\"])"
    )
    public struct SharedDatabaseService {}

    /// Needs the package trait `Service`.
    @available(
        *,
        unavailable,
        message: "RoundtableService needs its trait: .package(name or url of Roundtable, traits: [\"Service\"])"
    )
    public struct JobWorkerService<Payload> {}
#endif
