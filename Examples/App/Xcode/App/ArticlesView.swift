import ReadingListStore
import SwiftUI

struct ArticlesView: View {
    let model: ReadingListModel

    var body: some View {
        NavigationStack {
            List {
                if let message = model.message { Text(message) }
                ForEach(model.articles) { article in
                    ArticleRow(article: article) { model.markRead(article) }
                }
            }
            .navigationTitle("Reading List")
            .task { await model.follow() }
        }
    }
}

struct ArticleRow: View {
    let article: Article
    let markRead: @MainActor () -> Void

    var body: some View {
        HStack {
            Link(article.name, destination: article.url)
            Spacer()
            if article.isRead { Text("Read") } else { Button("Mark as Read", action: markRead) }
        }
    }
}
