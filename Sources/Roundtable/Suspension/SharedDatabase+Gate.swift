import RoundtableKernel

extension SharedDatabase {
    /// What opening and closing the gate entails for the rest of the database.
    func followGate() {
        gate.hook { hooks in
            hooks.didClose = { [weak self] deadline in self?.gateDidClose(deadline) ?? [] }
            hooks.willOpen = { [weak self] in self?.gateWillOpen() }
        }
    }

    /// - returns: what is held all the same.
    private func gateDidClose(_ deadline: Nanoseconds) -> [Suspension.Access] {
        seat.show(isSuspended: true)
        return []
    }

    private func gateWillOpen() {
        seat.show(isSuspended: false)
        // The place may have been lost during a long sleep.
        writer.queue.asyncWriteWithoutTransaction { [seat] _ in seat.comeBack() }
    }
}
