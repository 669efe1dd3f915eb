import Foundation
import Roundtable
import RoundtableFiles
import RoundtableKernel
import RoundtableToolSupport

/// The claim to be the only collector of a store (rule Z10). For one thread.
final class CollectorClaims {
    private let folder: OutboxFolder
    private let store: any OutboxStore
    private var takesOver: Bool
    private let file: TravelFile<CollectorClaim>
    private var own: (id: UUID, mark: StoreMark)?
    /// Whether a listing has shown this claim and no other.
    private var isEstablished = false

    init(_ folder: OutboxFolder, _ store: any OutboxStore, takesOver: Bool) {
        self.folder = folder
        self.store = store
        self.takesOver = takesOver
        file = TravelFile(at: folder.claimPath, as: "collect")
    }

    private struct Claim: Equatable {
        let collector: UUID
        let mark: StoreMark
        var path: String { StoreObject.claim(mark, of: collector) }
    }

    /// Returns when the store shows this claim and no other.
    ///
    /// - Parameters:
    ///   - objects: the listing of this round.
    ///   - listing: lists again.
    /// - returns: the last listing.
    /// - throws: ``TravelProblem`` when another collector is there, or when the store does not show the claim yet.
    func confirm(in objects: [StoreObject], listing: () throws -> [StoreObject]) throws -> [StoreObject] {
        var objects = objects
        // A claim is written once for each process, and uploaded once; two listings are enough.
        for isSecond in [false, true] {
            let claims = Self.claims(in: objects)
            // The first listing decides before anything is written.
            let own = try own ?? begin(claims)
            let mine = Claim(collector: own.id, mark: own.mark)
            let others = claims.filter {
                $0 != mine && ($0.collector != own.id || own.mark.isForeign($0.mark))
            }
            if !others.isEmpty {
                if takesOver {
                    try store.delete(others.map(\.path))
                } else {
                    try refuse(others[0], isClaimed: claims.contains(mine), mine)
                }
            }
            let earlier = claims.filter { $0 != mine && !others.contains($0) }
            if claims.contains(mine) {
                if !earlier.isEmpty { try store.delete(earlier.map(\.path)) }
                if others.isEmpty {
                    isEstablished = true
                    takesOver = false
                    return objects
                }
            } else {
                try store.upload(file.bytes(), as: mine.path)
            }
            if isEstablished { return objects }
            if !isSecond { objects = try listing() }
        }
        throw TravelProblem(cause: .claimNotShown)
    }

    private static func claims(in objects: [StoreObject]) -> [Claim] {
        objects.compactMap {
            guard case .claim(let collector, let mark) = $0.name else { return nil }
            return Claim(collector: collector, mark: mark)
        }
    }

    /// Writes the claim of this process, unless another collector is there.
    private func begin(_ claims: [Claim]) throws -> (id: UUID, mark: StoreMark) {
        let status = try System.status(ofFileAt: folder.path)
        let identity = FileIdentity(try status.orThrow(folder.path))
        let place = (String(identity.device, radix: 16), String(identity.inode, radix: 16))
        let found = try file.read()
        let isOwn = found.map { ($0.value.device, $0.value.inode) == place } ?? false
        let id = isOwn ? found!.value.id : UUID()
        let others = claims.filter { $0.collector != id || (isOwn && found!.mark.isForeign($0.mark)) }
        if let other = others.first, !takesOver { throw Self.conflict(other, isFinal: true) }
        let mark = try file.write(CollectorClaim(id: id, device: place.0, inode: place.1))
        own = (id, mark)
        return (id, mark)
    }

    private func refuse(_ other: Claim, isClaimed: Bool, _ mine: Claim) throws {
        guard isEstablished else {
            if isClaimed { try store.delete([mine.path]) }
            throw Self.conflict(other, isFinal: true)
        }
        guard isClaimed else {
            throw TravelProblem(cause: .takenOver, detail: "\(other.collector)", isFinal: true)
        }
        throw Self.conflict(other, isFinal: false)
    }

    private static func conflict(_ other: Claim, isFinal: Bool) -> TravelProblem {
        TravelProblem(cause: .otherCollector, detail: "\(other.collector)", isFinal: isFinal)
    }
}

extension Optional {
    fileprivate func orThrow(_ path: String) throws -> Wrapped {
        guard let self else { throw ToolError("\(path): there is no such folder. Check the path.") }
        return self
    }
}
