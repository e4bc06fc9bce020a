//! Chat templates: messages to the text that a model was trained on.
//!
//! A template is a program in the language of Jinja that a checkpoint carries
//! (<https://huggingface.co/docs/transformers/chat_templating>). Nothing of files, clocks or networks is within its reach.

use crate::error::TextError;
use minijinja::{Environment, context};

/// What somebody says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who: `system`, `user` or `assistant`, as the template names them.
    pub role: String,
    /// What.
    pub content: String,
}

/// A template that has been parsed.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
}

/// The only template of an environment.
const NAME: &str = "chat";

impl ChatTemplate {
    /// Parses a template.
    ///
    /// # Errors
    /// [`TextError::Template`] if it is malformed.
    pub fn new(source: &str) -> Result<ChatTemplate, TextError> {
        let mut environment = Environment::new();
        // As transformers sets it: a block takes its line with it.
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.add_template_owned(NAME, source.to_owned()).map_err(refused)?;
        Ok(ChatTemplate { environment })
    }

    /// The text of messages, up to where the assistant begins to speak.
    ///
    /// # Errors
    /// [`TextError::Template`] if the template refuses them.
    pub fn render(&self, messages: &[Message]) -> Result<String, TextError> {
        let messages: Vec<minijinja::Value> =
            messages.iter().map(|m| context! { role => m.role, content => m.content }).collect();
        let template = self.environment.get_template(NAME).map_err(refused)?;
        template.render(context! { messages, add_generation_prompt => true }).map_err(refused)
    }
}

fn refused(error: minijinja::Error) -> TextError {
    TextError::Template(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str = "{% for m in messages %}{{'<' + m['role'] + '>' + m.content + '\n'}}{% endfor %}\
                            {% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}";

    #[test]
    fn messages_become_text() {
        let message =
            |role: &str, content: &str| Message { role: role.to_owned(), content: content.to_owned() };
        let text = ChatTemplate::new(TEMPLATE)
            .unwrap()
            .render(&[message("system", "Be brief."), message("user", "Hi")]);
        assert_eq!(text.unwrap(), "<system>Be brief.\n<user>Hi\n<assistant>");
    }

    #[test]
    fn malformed_templates_are_refused() {
        let error = ChatTemplate::new("{% for m in %}").unwrap_err();
        assert!(error.to_string().starts_with("the chat template: syntax error"), "{error}");
        let template = ChatTemplate::new("{{ nothing(1) }}").unwrap();
        assert!(matches!(template.render(&[]), Err(TextError::Template(_))));
    }
}
