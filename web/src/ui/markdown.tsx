import { useTranslation } from 'react-i18next'
import Markdown from 'react-markdown'
import remarkGfm from 'remark-gfm'
import { CodeBlock } from './code'
import { ScrollBox } from './scroll-box'

const plugins = [remarkGfm]

/**
 * Markdown that somebody or something else wrote. Raw HTML is shown as text;
 * links lead to web pages only; pictures are not fetched, since that would tell
 * another host who reads this.
 */
export default function MarkdownText({ text }: { text: string }) {
  const { t } = useTranslation()
  return (
    <div className="markdown wrap-anywhere">
      <Markdown
        remarkPlugins={plugins}
        urlTransform={(url) => (/^(https?:|mailto:|#)/i.test(url) ? url : '')}
        components={{
          a: ({ href, children }) =>
            href ? (
              <a href={href} target="_blank" rel="noreferrer noopener nofollow">
                {children}
              </a>
            ) : (
              <span>{children}</span>
            ),
          img: ({ src, alt }) => {
            const address = typeof src === 'string' ? src : ''
            return address ? (
              <a href={address} target="_blank" rel="noreferrer noopener nofollow">
                {alt || address}
              </a>
            ) : (
              <span>{alt}</span>
            )
          },
          pre: ({ node }) => {
            const code = node?.children[0]
            const text =
              code?.type === 'element' ? code.children.map((c) => (c.type === 'text' ? c.value : '')).join('') : ''
            const classes = code?.type === 'element' ? code.properties.className : undefined
            const language = /language-(\S+)/.exec(String(classes))?.[1] ?? ''
            return <CodeBlock text={text.replace(/\n$/, '')} language={language.toLowerCase()} />
          },
          table: ({ children }) => (
            <ScrollBox label={t('ui.table')} className="overflow-x-auto">
              <table>{children}</table>
            </ScrollBox>
          ),
          // Headings of a text must not come among the page's own.
          h1: ({ children }) => <p className="heading text-lg">{children}</p>,
          h2: ({ children }) => <p className="heading text-base">{children}</p>,
          h3: ({ children }) => <p className="heading text-[15px]">{children}</p>,
          h4: ({ children }) => <p className="heading">{children}</p>,
          h5: ({ children }) => <p className="heading">{children}</p>,
          h6: ({ children }) => <p className="heading">{children}</p>,
          input: ({ checked }) => <span aria-hidden>{checked ? '☑ ' : '☐ '}</span>,
        }}
      >
        {text}
      </Markdown>
    </div>
  )
}
