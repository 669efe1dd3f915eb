#if Service
    import Foundation
    import GRDB
    import RoundtableCore
    import RoundtableKernel
    import Synchronization
    import Tracing

    /// Records writes as spans of swift-distributed-tracing, with the tracer that is bootstrapped, and as children of the caller's span.
    ///
    /// A span `write` has a child `wait` until its closure begins. Their attributes follow
    /// [OpenTelemetry's conventions for databases](https://opentelemetry.io/docs/specs/semconv/database/).
    struct ServiceTracer: WriteTracer {
        /// The file name of the database.
        let name: String
        let author: String

        init(_ database: SharedDatabase) {
            (name, author) = ((database.path as NSString).lastPathComponent, database.author)
        }

        func begin(at site: CallSite) -> any TracedWrite {
            let span = startSpan("write \(name)", ofKind: .client)
            span.attributes["db.system.name"] = "sqlite"
            span.attributes["db.namespace"] = name
            span.attributes["db.operation.name"] = "write"
            span.attributes["roundtable.participant"] = author
            if site.line > 0 {
                span.attributes["code.file.path"] = "\(site.file)"
                span.attributes["code.line.number"] = Int(site.line)
            }
            return Spans(write: span, wait: startSpan("wait \(name)", context: span.context))
        }

        private final class Spans: TracedWrite {
            let write: any Span
            let wait: any Span
            private let hasBegun = Atomic(false)

            init(write: any Span, wait: any Span) { (self.write, self.wait) = (write, wait) }

            func didBegin() {
                if !hasBegun.exchange(true, ordering: .relaxed) { wait.end() }
            }

            func didEnd(_ error: (any Error)?) {
                didBegin()
                if let error { write.fail(error) }
                write.end()
            }
        }
    }

    extension Span {
        /// Shows the kind of an error.
        func fail(_ error: any Error) {
            attributes["error.type"] = ErrorType.name(of: error)
            if let error = error as? DatabaseError {
                attributes["db.response.status_code"] = "\(error.resultCode.rawValue)"
            }
            setStatus(SpanStatus(code: .error))
        }
    }
#endif
