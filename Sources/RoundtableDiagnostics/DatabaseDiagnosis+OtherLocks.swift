import RoundtableCore
import RoundtableKernel

extension DatabaseDiagnosis {
    /// Reports the files of other libraries whose locks iOS kills a process for.
    mutating func examineOtherLocks(_ container: GroupContainer) {
        let libraries = container.libraries
        for library in LockingLibrary.allCases {
            guard let files = libraries[library], let first = files.first else { continue }
            let advice = library.advice
            find(
                .otherLocks,
                .notice,
                """
                \(files.count.of("file")) of \(library.rawValue) \(files.count == 1 ? "is" : "are") in the App Group's container, to judge by the \
                name. \(library.rawValue) \(advice.lasts), and iOS kills a process that it suspends with such a lock.
                """,
                at: first,
                advice: "\(advice.next)."
            )
        }
        if container.isCut {
            unknowns.append(
                "Locks of other libraries: only \(GroupContainer.most.grouped) files of \(container.path) were looked at."
            )
        }
        if let first = container.unreadable.first {
            unknowns.append(
                "Locks of other libraries: \(container.unreadable.count.of("folder")) cannot be read, such as \(first)."
            )
        }
    }
}
