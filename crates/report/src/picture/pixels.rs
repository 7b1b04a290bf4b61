//! The picture as PNG, with a font of its own: where a laboratory runs there is often none.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::Database;
use resvg::usvg::{Options, Tree};

use crate::ReportError;

/// The weights that the picture is written in; [where they are from](https://rsms.me/inter).
const FONTS: [&[u8]; 2] = [include_bytes!("inter-400.ttf"), include_bytes!("inter-600.ttf")];

/// What `svg` shows, as PNG of as many pixels as it says.
pub(super) fn png(svg: &str) -> Result<Vec<u8>, ReportError> {
    let failed = |why: &dyn ToString| ReportError::Picture(why.to_string());
    let mut fonts = Database::new();
    for font in FONTS {
        fonts.load_font_data(font.to_vec());
    }
    let options = Options {
        font_family: "Inter".to_owned(),
        fontdb: Arc::new(fonts),
        ..Options::default()
    };
    let tree = Tree::from_str(svg, &options).map_err(|error| failed(&error))?;
    let size = tree.size().to_int_size();
    let mut pixels = Pixmap::new(size.width(), size.height()).ok_or_else(|| failed(&"it has no size"))?;
    resvg::render(&tree, Transform::default(), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many pixels a text blackens.
    fn ink(text: &str, weight: u32) -> usize {
        let svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"60\" height=\"60\">\
             <text x=\"10\" y=\"45\" font-size=\"40\" font-weight=\"{weight}\">{text}</text></svg>"
        );
        let pixels = Pixmap::decode_png(&png(&svg).unwrap()).unwrap();
        pixels.pixels().iter().filter(|pixel| pixel.alpha() > 128).count()
    }

    #[test]
    fn every_sign_of_a_figure_is_in_the_font_in_both_weights() {
        assert_eq!(ink(" ", 400), 0);
        for sign in "aZ09%×÷·µ–…≥≤≈−²³⁶√σ→".chars() {
            assert!(ink(&sign.to_string(), 400) > 0, "{sign}");
        }
        assert!(ink("l", 600) > ink("l", 400), "heavier is another font");
    }

    #[test]
    fn what_is_no_picture_is_refused_with_its_reason() {
        let refused = png("<svg").unwrap_err().to_string();
        assert!(refused.starts_with("the picture cannot be drawn ("), "{refused}");
    }
}
