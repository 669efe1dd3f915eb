import ReadingList
import RoundtableFiles
import UIKit

/// Submits the shared link, and ends. It opens no database, and holds no lock that could outlast it.
final class ShareViewController: UIViewController {
    override func viewDidAppear(_ animated: Bool) {
        super.viewDidAppear(animated)
        Task {
            do {
                try await submit(AddLink(url: sharedURL()))
                extensionContext?.completeRequest(returningItems: nil)
            } catch {
                extensionContext?.cancelRequest(withError: error)
            }
        }
    }

    /// The link is on the disk when `submit` returns, whether the app runs or not. Half a second is for the answer of an app that runs.
    private func submit(_ link: AddLink) async throws {
        let submission = try await SharedFiles.ofAppGroup().outbox(as: "share").submit(link)
        if case .setAside(_, let reason) = try await submission.outcome(within: .milliseconds(500)) {
            throw ShareError.refused(reason)
        }
    }

    private func sharedURL() async throws -> URL {
        let items = extensionContext?.inputItems as? [NSExtensionItem] ?? []
        let providers = items.flatMap { $0.attachments ?? [] }
        guard let provider = providers.first(where: { $0.canLoadObject(ofClass: URL.self) }) else {
            throw ShareError.noLink
        }
        return try await withCheckedThrowingContinuation { continuation in
            _ = provider.loadObject(ofClass: URL.self) { url, error in
                continuation.resume(with: Result { if let url { url } else { throw error ?? ShareError.noLink } })
            }
        }
    }
}

enum ShareError: LocalizedError {
    case noLink
    /// The app has refused the link, with this reason.
    case refused(String)

    var errorDescription: String? {
        switch self {
        case .noLink: "There is no link in what was shared."
        case .refused(let reason): reason
        }
    }
}
